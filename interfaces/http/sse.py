"""The answer that is a stream of Server-Sent Events: one that ends in order when its server ends.

A stream that never ends keeps a server from shutting down, and one that is cut off looks like a fault of the line.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sse_starlette import EventSourceResponse

End: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when the server is about to end. The stream then has a second to say its last word."""

STREAM_CACHE = "no-store, no-transform"
"""How a stream may be passed on. A proxy that packs it would hold it back until it has enough, which is never."""

_GRACE_SECONDS = 1
_NEVER_SECONDS = 10 * 365 * 86_400
"""Between the comments of the library: the signs of life are ours."""


def event_source(stream: Callable[[End], AsyncGenerator[Any]]) -> "EventSourceResponse":
    """Return an answer that sends what `stream` yields: events of the library, or bytes as they are."""
    import anyio
    from sse_starlette import EventSourceResponse

    closing = anyio.Event()
    return EventSourceResponse(
        stream(closing.wait),
        headers={"Cache-Control": STREAM_CACHE},
        sep="\n",
        ping=_NEVER_SECONDS,
        shutdown_event=closing,
        shutdown_grace_period=_GRACE_SECONDS,
    )
