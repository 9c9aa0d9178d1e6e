"""The events of a response become pieces for people and the body that the call would have had without streaming."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from steptrail.domain.inference import ModelDelta
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.sdk_types import Assembly
from steptrail.infrastructure.models.sse import ServerEvent, server_events
from steptrail.infrastructure.models.wire import failure, read_piece

if TYPE_CHECKING:
    from httpx2 import Response

T = TypeVar("T")


class Within(Protocol):
    """Waits for something of the response, with the deadline and the errors of the call."""

    async def __call__(self, work: Awaitable[T]) -> T:
        """Return what comes."""
        ...


async def read_stream(
    response: "Response", assembly: Assembly, within: Within
) -> AsyncGenerator[ModelDelta | str, None]:
    """Yield what a response says for people as it comes, and last the text of its body.

    A server that does not stream has sent the body. Raises `ModelReplyInvalid` for anything else, such as a page, and
    what `within` and the assembly raise.
    """
    kind, is_stream = response.headers.get("content-type", "").partition(";")[0].strip().lower(), False
    if kind == "application/json":
        yield await within(_whole(response))
        return
    async with aclosing(server_events(response.aiter_bytes())) as events:
        while (event := await within(anext(events, None))) is not None:
            is_stream = True
            for delta in _told(assembly, event):
                yield delta
            if assembly.is_over:
                await _drained(events)
                break
    # Some servers stream under another name.
    if not is_stream and kind != "text/event-stream":
        raise ModelReplyInvalid(f"it is {kind[:40] or 'of no kind'}, and neither JSON nor a stream of events")
    yield json.dumps(assembly.body())


_LONGEST_DRAIN: Final = 0.5
"""Seconds for the end of a response whose reply is there: read to it, a connection can be used again."""


async def _drained(events: AsyncIterator[ServerEvent]) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_LONGEST_DRAIN):
            async for _ in events:
                pass


async def _whole(response: "Response") -> str:
    return b"".join([chunk async for chunk in response.aiter_bytes()]).decode(errors="replace")


def _told(assembly: Assembly, event: ServerEvent) -> Iterable[ModelDelta]:
    if event.name == "ping":
        return ()
    if event.data.startswith("[DONE]"):
        assembly.end()
        return ()
    if event.name == "error":
        raise failure(_read_error(event.data), "the stream of the model reports an error")
    return assembly.add(read_piece(event.data))


def _read_error(data: str) -> JsonValue:
    try:
        return read_piece(data)
    except ModelReplyInvalid:
        return data
