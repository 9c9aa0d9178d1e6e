"""The lines that a server of a process of our own writes, of which none is longer than a service has room for.

The SDK collects a line however long it is. It decodes what it reads with a codec that it is told the name of: this one
hands on whole lines, and refuses one without an end.
"""

import codecs
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from steptrail.infrastructure.bounded_http import MOST_BYTES

CODEC: Final = "steptrail_lines"
"""The name of the codec: UTF-8, line by line."""

refusing: ContextVar[Callable[[Exception], None]] = ContextVar("refusing")
"""The function that is told of a line that is too long, in the task that reads and in the one that began it."""


class _WholeLines(codecs.IncrementalDecoder):
    """Decodes UTF-8 into whole lines. After one that is too long it decodes nothing more."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._begun, self._is_over = bytearray(), False

    def decode(self, input: bytes, final: bool = False) -> str:  # type: ignore[override]  # noqa: A002 - of the class
        """Return the lines that have ended. When all has been read the last one need not end."""
        if self._is_over:
            return ""
        self._begun += input
        end = len(self._begun) if final else self._begun.rfind(b"\n", len(self._begun) - len(input)) + 1
        if len(self._begun) - end > MOST_BYTES:
            self._is_over = True
            self._begun.clear()
            refusing.get()(ValueError(f"it wrote a line of more than {MOST_BYTES:,} bytes"))
            return ""
        lines = bytes(self._begun[:end])
        del self._begun[:end]
        return lines.decode("utf-8", self.errors)


def _find(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_WholeLines, name=CODEC)


codecs.register(_find)
