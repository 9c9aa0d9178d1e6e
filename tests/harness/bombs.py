"""A server over HTTP whose answers are larger than anybody has room for; the path says in which way."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from urllib.parse import urlsplit

_MEGABYTE = b"a" * 1024 * 1024
_STATUS = {"failed": "500 Internal Server Error"}
_TYPE = {"events": "text/event-stream"}


@asynccontextmanager
async def bomb_server() -> AsyncGenerator[str]:
    """Yield the address. Words of the path say how the body is coded and goes on without end.

    That is `gzip` or `br`, `ended` for a gzip that is over before, `failed` with status 500, `events` for a stream.
    With `head` it is the head that goes on without end, now and then by a byte; through a proxy as well.
    """
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def _packed(begins: bytes) -> tuple[bytes, bytes]:
    """Return the beginning of a body in gzip, and a megabyte of it that may follow any number of times."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first = packer.compress(begins) + packer.flush(zlib.Z_FULL_FLUSH)
    return first, packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        words = urlsplit(head.split()[1]).path.strip("/").partition("/")[0].split("-")
        if "head" in words:
            writer.write(b"HTTP/1.1 200 OK\r\nX-Slow:")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        status = next((_STATUS[word] for word in words if word in _STATUS), "200 OK")
        kind = next((_TYPE[word] for word in words if word in _TYPE), "application/json")
        coding = next((f"Content-Encoding: {word}\r\n" for word in words if word in {"gzip", "br"}), "")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{coding}Connection: close\r\n\r\n".encode())
        begins = b'data: "' if "events" in words else b'"'
        first, more = _packed(begins) if "gzip" in words else (begins, _MEGABYTE)
        if "ended" in words:
            first, more = gzip.compress(begins), _MEGABYTE
        writer.write(first)
        while True:  # until the client has had enough
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)  # what is packed fills no buffer, and the client may be in this loop
