"""The checks of names that callers choose for streams and followers, and of the other plain values that they give."""

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import ConfigurationError, NotStorable, shown

__all__ = ["a_flag", "a_person", "a_place", "a_row", "a_text", "checked_name", "is_name"]

T = TypeVar("T")

_LONGEST = 128
_ALLOWED = re.compile(rf"[A-Za-z0-9._@+=-]{{1,{_LONGEST}}}")


def is_name(text: str) -> bool:
    """Tell whether a text may be a name, or the beginning of one."""
    return _ALLOWED.fullmatch(text) is not None


def checked_name(text: str, what: str) -> str:
    """Return `text` if it is a name: 1 to 128 of the characters `A-Za-z0-9._@+=-`.

    Raises `ConfigurationError` otherwise. `what` says in its message what the name is for.
    """
    a_text(text, what)
    if not is_name(text):
        msg = f"{shown(text)} cannot be {what}: use 1 to {_LONGEST} letters, digits or . _ @ + = -"
        raise ConfigurationError(msg)
    return text


def a_text(given: object, what: str) -> str:
    """Return `given`, which must be a text. Raises `ConfigurationError` that says what it was to be."""
    if not isinstance(given, str):
        raise ConfigurationError(f"{what} is a text, not {type(given).__name__}")
    return given


def a_person(given: object, what: str) -> str:
    """Return `given`, which names a person or a program for the record.

    Raises `ConfigurationError` for what names nobody. The name becomes a column of text, and PostgreSQL allows no NUL
    in such a column: that is `NotStorable`.
    """
    named = a_text(given, what)
    if not named.strip():
        raise ConfigurationError(f"{what} says for the record who asks, answers or erases: it must not be empty")
    if "\0" in named:
        raise NotStorable(what, "a name with a NUL")
    return named


def a_flag(given: object, what: str) -> bool:
    """Return `given`, which must be True or False: what else is false in Python is no answer to a question."""
    if not isinstance(given, bool):
        said = shown(given) if isinstance(given, str) else type(given).__name__
        raise ConfigurationError(f"{what} is True or False, not {said}")
    return given


def a_place(given: object, what: str) -> int:
    """Return `given`, a place in the log or a limit: a whole number from 0. Raises `ConfigurationError`."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise ConfigurationError(f"{what} is a whole number, not {type(given).__name__}")
    if not 0 <= given <= LARGEST:
        # To write a huge number as text takes long, and Python refuses it.
        said = f"{given}" if abs(given) < 10**30 else "a number of more than thirty digits"
        raise ConfigurationError(f"{what} is a number from 0 to {LARGEST}, not {said}")
    return int(given)


def a_row(given: Iterable[T], what: str) -> tuple[T, ...]:
    """Return the values of a list or the like. Raises `ConfigurationError` for a text, an object, and no list."""
    one = cast(object, given)
    if isinstance(one, str | bytes | Mapping) or not isinstance(one, Iterable):
        raise ConfigurationError(f"{what}: Expected a list, got `{type(cast(object, given)).__name__}`")
    return tuple(given)
