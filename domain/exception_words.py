"""The words of an exception as they may be stored: without credentials, of bounded length, and text that UTF-8 holds.

Libraries put what they were given into their messages: addresses with passwords and keys, headers that they refuse.
"""

import re
from typing import Final

__all__ = ["MAX_MESSAGE", "storable", "words_of"]

MAX_MESSAGE: Final = 2000
"""Characters of a message that are kept."""

_CREDENTIALS: Final = (
    (re.compile(r"(?i)([?&](?:key|sig|signature)=)[^&\s'\"]+"), r"\1…"),
    (re.compile(r"(?i)(?<![a-z])((?:api[-_]?key|[a-z_]*token|secret|password|passwd)=)[^&\s'\",;)]+"), r"\1…"),
    (re.compile(r"(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@"), r"\1…@"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[a-z0-9._~+/=-]{8,}"), r"\1…"),
    (re.compile(r"\b(sk-)[A-Za-z0-9_*-]{6,}"), r"\1…"),
    # What HTTP clients say of a key that was pasted with the end of its line.
    (re.compile(r"(?i)\b(illegal header value ).+"), r"\1…"),
)


def words_of(exc: BaseException) -> str:
    """Return what the exception says, as it may be stored; nothing when it has no words, or none that can be had."""
    try:
        text = str(exc)
    except Exception:
        return ""
    return storable(text)


def storable(text: str) -> str:
    """Return the text without credentials and blanks around it, and at most `MAX_MESSAGE` characters of it."""
    # Twice the bound is enough to keep and cheap to search, however long the text.
    text = text[: 2 * MAX_MESSAGE].encode(errors="backslashreplace").decode()
    for pattern, replacement in _CREDENTIALS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
