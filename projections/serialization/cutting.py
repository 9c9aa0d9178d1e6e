"""Cutting text where a reader would: between characters as people see them, and never through one."""

import unicodedata

_MARK = "..."
_JOINER = "\u200d"
_LONGEST_CHARACTER = 32
"""Code points. What goes on for longer was not written to be read, and is cut anywhere."""


def cut(text: str, limit: int | None) -> str:
    """Return the first `limit` code points and `...`, or the text itself when it is not longer.

    A letter keeps its accents and an emoji its parts: up to 31 code points fewer are kept where the limit falls into
    one. None and 0 mean no limit.
    """
    if not limit or len(text) <= limit:
        return text
    end = limit
    while end > 0 and limit - end < _LONGEST_CHARACTER and _goes_on(text, end):
        end -= 1
    if end == 0 or _goes_on(text, end):
        end = limit
    return text[:end] + _MARK


def _goes_on(text: str, end: int) -> bool:
    """Tell whether what is at `end` belongs to the character before it."""
    before, here = text[end - 1], text[end]
    if _JOINER in (before, here):
        return True
    if _is_flag_letter(here) and _is_flag_letter(before):
        # Flags are pairs of letters: count back to where the row of letters begins.
        start = end
        while start > 0 and end - start < 2 * _LONGEST_CHARACTER and _is_flag_letter(text[start - 1]):
            start -= 1
        return (end - start) % 2 == 1
    skin = "\U0001f3fb" <= here <= "\U0001f3ff"
    return skin or unicodedata.category(here) in {"Mn", "Me", "Mc"} or (before, here) == ("\r", "\n")


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
