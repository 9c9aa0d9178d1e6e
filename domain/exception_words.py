"""The message of an exception in a form that may be stored: bounded, valid UTF-8, and without credentials."""

from typing import Final, cast

from steptrail.domain.secrets import without_secrets

MAX_MESSAGE: Final = 2000
"""How many characters of a message are kept."""


def words_of(exc: BaseException) -> str:
    """Return what the exception says, as it may be stored; an empty text when it has no words that can be had.

    A group says no more than how many members it has: what the first of them says follows, which cancelled the others.
    """
    try:
        text = str(exc)
    except Exception:
        return ""
    first = exc
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    if first is not exc:
        said = words_of(first)
        text += f": {type(first).__name__}: {said}" if said else f": {type(first).__name__}"
    return kept_text(text)


def kept_text(text: str, most: int = MAX_MESSAGE) -> str:
    """Return the text without credentials and without blanks around it, at most `most` characters."""
    # Twice the bound is enough text to take the result from, and quick to search, however long the whole is.
    text = without_secrets(unicode_text(text[: 2 * most])).strip()
    return cut_text(text, most)


def cut_text(text: str, most: int) -> str:
    """Return the text cut to `most` characters. Half a character in it is then written out."""
    return unicode_text(text if len(text) <= most else text[: most - 1] + "…")


def unicode_text(text: str) -> str:
    """Return the plain text of a text that may hold half a character, or be of a class made from `str`."""
    return str.encode(text, errors="backslashreplace").decode()
