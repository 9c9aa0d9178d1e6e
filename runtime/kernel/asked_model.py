"""Asks a model for a reply, and shows the reply while it is written, where somebody watches."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeAlias, cast

import msgspec

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta, ModelReply, ModelRequest
from steptrail.domain.messages import CitationPart, FilePart, ProviderPart, ToolCallPart
from steptrail.domain.readable import readable
from steptrail.domain.storable import storable
from steptrail.runtime.kernel.ports import ModelDriver, StreamingModelDriver

ShowPiece: TypeAlias = Callable[[ModelDelta | None], None]
"""Shows a piece of a reply; None stands for the end of one that was shown."""


async def reply_of(model: ModelDriver, request: ModelRequest, show: ShowPiece | None) -> ModelReply:
    """Return the reply of a model. With `show`, a driver that can stream is asked to, and each piece is shown.

    Raises what the driver raises, and `StreamBroken` for a stream that ends without a reply.
    """
    if show is None or not isinstance(model, StreamingModelDriver):
        return await model.infer(request)
    is_written = False
    stream = model.stream(request)
    if not isinstance(cast("object", stream), AsyncIterator) or not hasattr(stream, "aclose"):
        raise TypeError(f"`stream` of the model driver returned {type(stream).__name__}: write it with `yield`")
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                if is_written:
                    show(None)
                return piece
            if not isinstance(cast("object", piece), ModelDelta):
                raise TypeError(f"`stream` of the model driver yielded {type(piece).__name__}, not a ModelDelta")
            is_written = True
            show(piece)
    raise StreamBroken(f"the stream of model {model.describe().model!r} ended without a reply")


def checked_reply(given: object) -> ModelReply:
    """Return a reply as it will be read back: checked, and a copy, because the driver may keep its own.

    Raises for one that cannot be stored, or whose tokens nobody can count, because a driver may return anything.
    """
    if not isinstance(given, ModelReply):
        raise TypeError(f"the model driver returned {type(given).__name__}, not a ModelReply")
    for part in given.parts:
        if isinstance(part, ToolCallPart):
            storable(part.arguments, f"the arguments of {part.name}")
        elif isinstance(part, FilePart):
            raise TypeError("the model driver returned a file, which only users and tools give")
        elif isinstance(part, ProviderPart | CitationPart):
            storable(part.data, f"the data of {part.provider}")
    try:
        reply = msgspec.json.decode(msgspec.json.encode(given), type=readable(ModelReply))
    except msgspec.ValidationError as error:
        raise TypeError(f"the model driver returned a ModelReply that is none: {error}") from None
    if reply.usage.total > LARGEST:
        raise ValueError("the model driver returned a usage of more tokens than 64 bits can count")
    return reply
