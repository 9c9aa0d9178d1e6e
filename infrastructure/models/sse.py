"""Server-sent events as the standard has them, read from bytes: what has no data is no event.

The SDKs differ in what they make of an event without data and of the mark of the end, and say of an event that is not
JSON only where the parser gave up. So their streams are read here.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """An event: its name, if it has one, and its data."""

    name: str | None
    data: str


async def server_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """Yield the events that have data. One that the bytes break off in is none."""
    lines, event = _Lines(), _Event()
    async for chunk in chunks:
        for line in lines.more(chunk):
            if (whole := event.more(line)) is not None:
                yield whole


class _Lines:
    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._is_first = True
        self._after_return = False

    def more(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a chunk. A return and the feed after it may stand in two chunks."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if not chunk:
            return
        self._after_return = chunk.endswith(b"\r")
        end, *later = _LINE_END.split(chunk)
        self._begun.append(end)
        for line in later:
            yield self._whole()
            self._begun.append(line)

    def _whole(self) -> bytes:
        whole = b"".join(self._begun)
        self._begun.clear()
        if self._is_first:
            self._is_first = False
            return whole.removeprefix(_BYTE_ORDER_MARK)
        return whole


class _Event:
    def __init__(self) -> None:
        self._name: str | None = None
        self._data: list[str] = []

    def more(self, line: bytes) -> ServerEvent | None:
        """Take a line, and return the event that it ends."""
        if not line:
            name, data = self._name, "\n".join(self._data)
            self._name, self._data = None, []
            return ServerEvent(name, data) if data.strip() else None
        field, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value or None
        return None
