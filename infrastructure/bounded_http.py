"""Clients of HTTP share this: the certificates, and responses that hold no more than a service has room for.

The SDKs of models and of tool servers read a body whole, also that of an error. Ten megabytes of it may be ten
gigabytes of what they were compressed from.
"""

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Response

MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest that one body may be, unpacked."""

ASKS_FOR: Final[Mapping[str, str]] = {"accept-encoding": "gzip"}
"""The header of requests whose responses are bounded: what else a body may be coded in is not read."""

_PIECE: Final = 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


def bounded(refusal: Callable[[str], Exception], *, with_streams: bool) -> "Callable[[Response], Awaitable[None]]":
    """Return a hook of a client for each of its responses, which raises a `refusal` where a body is too long.

    Streams of events have no end by their nature: only `with_streams` they count like any other body.
    """
    from httpx2 import AsyncByteStream

    class Bounded(AsyncByteStream):
        def __init__(self, stream: AsyncByteStream, body: Body) -> None:
            self._stream, self._body = stream, body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                for piece in self._body.pieces(chunk):
                    yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: "Response") -> None:
        coding = response.headers.pop("content-encoding", "identity")
        is_stream = response.headers.get("content-type", "").strip().lower().startswith("text/event-stream")
        body = Body(coding, None if is_stream and not with_streams else MOST_BYTES, refusal)
        if isinstance(response.stream, AsyncByteStream):
            response.stream = Bounded(response.stream, body)
        # JSON is nothing else, whatever is said of it. To read a few megabytes as Punycode would take hours.
        response.encoding = "utf-8"

    return bound


@cache
def certificates() -> "SSLContext":
    """Return the authorities that TLS trusts: those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, otherwise of the system.

    They are read once in a process, because that takes longer than many a request.
    """
    from httpx2 import create_ssl_context

    return create_ssl_context()


class Body:
    """Unpacks a body and counts it, up to `most` bytes if there is such a bound.

    Raises a `refusal` for one that is longer, that is coded otherwise than in gzip, or that goes on behind its end.
    """

    def __init__(self, coding: str, most: int | None, refusal: Callable[[str], Exception]) -> None:
        coding = coding.strip().lower()
        if coding not in {"gzip", "identity"}:
            raise refusal(f"the body of the answer is coded as {coding[:40]!r}, which nobody asked for")
        self._read, self._most, self._refusal = 0, most, refusal
        self._decoder = zlib.decompressobj(_GZIP) if coding == "gzip" else None

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk holds, in pieces of at most a megabyte where it was packed."""
        for piece in self._unpacked(chunk):
            self._read += len(piece)
            if self._most is not None and self._read > self._most:
                raise self._refusal(f"the body of the answer is longer than {self._most:,} bytes")
            yield piece

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            yield chunk
            return
        while chunk:
            try:
                yield self._decoder.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise self._refusal(f"the body of the answer is no gzip: {error}") from None
            if self._decoder.unused_data:  # it would be kept, however much of it comes
                raise self._refusal("the body of the answer goes on behind the end of its gzip")
            chunk = self._decoder.unconsumed_tail
