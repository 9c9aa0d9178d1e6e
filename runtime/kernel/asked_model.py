"""Asks a model for a reply, and shows the reply while it is written, where somebody watches."""

from collections.abc import Callable
from contextlib import aclosing
from typing import TypeAlias

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta, ModelReply, ModelRequest
from steptrail.runtime.kernel.ports import ModelDriver, StreamingModelDriver

__all__ = ["ShowPiece", "reply_of"]

ShowPiece: TypeAlias = Callable[[ModelDelta | None], None]
"""Shows a piece of a reply; None stands for the end of one that was shown."""


async def reply_of(model: ModelDriver, request: ModelRequest, show: ShowPiece | None) -> ModelReply:
    """Return the reply of a model. With `show`, a driver that can stream is asked to, and each piece is shown.

    Raises what the driver raises, and `StreamBroken` for a stream that ends without a reply.
    """
    if show is None or not isinstance(model, StreamingModelDriver):
        return await model.infer(request)
    is_written = False
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                if is_written:
                    show(None)
                return piece
            is_written = True
            show(piece)
    raise StreamBroken(f"the stream of model {model.describe().model!r} ended without a reply")
