"""The checks of plain values that callers give: at once, where they are given, so that no run fails over them later.

Each returns what it was given, or raises a `ConfigurationError` that names it by `what`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, TypeVar, cast

from steptrail.domain.base import CENTURY_SECONDS, LARGEST
from steptrail.domain.errors import ConfigurationError, NotStorable, shown
from steptrail.domain.storable import is_unicode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

K = TypeVar("K")
T = TypeVar("T")
WordT = TypeVar("WordT", bound=StrEnum)


def a_text(given: object, what: str) -> str:
    """Return `given`, which must be a text."""
    if not isinstance(given, str):
        raise ConfigurationError(f"{what} is a text, not {type(given).__name__}")
    return given


def for_the_record(given: object, what: str) -> str:
    """Return `given`, which says for the record who asks, answers or erases, or why.

    It becomes a column of text: half a character is `NotStorable`, and a NUL too, which PostgreSQL refuses there.
    """
    words = a_text(given, what)
    if not words.strip():
        raise ConfigurationError(
            f"{what} says for the record who asks, answers or erases, or why: it must not be empty"
        )
    if not is_unicode(words) or "\0" in words:
        raise NotStorable(what, "text with a NUL" if "\0" in words else "text that is not valid Unicode")
    return words


def a_key(given: object, what: str) -> str:
    """Return `given`, which must be an idempotency key. An empty one would be the same for everybody."""
    key = a_text(given, what)
    if not key.strip():
        raise ConfigurationError(f"{what}: it is empty: leave it out, or give one that names this command")
    return key


def a_flag(given: object, what: str) -> bool:
    """Return `given`, which must be True or False: what else is false in Python is no answer to a question."""
    if not isinstance(given, bool):
        said = shown(given) if isinstance(given, str) else type(given).__name__
        raise ConfigurationError(f"{what} is True or False, not {said}")
    return given


def check_flags(settings: "DataclassInstance") -> None:
    """Raise for a field of settings that is True or False by default, and is neither in these."""
    for field in fields(settings):
        if isinstance(field.default, bool):
            a_flag(getattr(settings, field.name), field.name)


def a_whole(given: object, what: str, *, least: int = 0) -> int:
    """Return `given`, which must be a whole number from `least`, and none that is too large for a store."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise ConfigurationError(f"{what} is a whole number, not {type(given).__name__}")
    if not least <= given <= LARGEST:
        # To write a huge number as text takes long, and Python refuses it.
        said = f"{given}" if abs(given) < 10**30 else "a number of more than thirty digits"
        raise ConfigurationError(f"{what} is a number from {least} to {LARGEST}, not {said}")
    return int(given)


def a_row(given: Iterable[T], what: str) -> tuple[T, ...]:
    """Return the values of a list or the like; a text and a mapping are none."""
    one = cast(object, given)
    if isinstance(one, str | bytes | Mapping) or not isinstance(one, Iterable):
        raise ConfigurationError(f"{what}: Expected a list, got `{type(cast(object, given)).__name__}`")
    return tuple(given)


def a_mapping(given: Mapping[K, T], what: str) -> dict[K, T]:
    """Return the entries of a mapping."""
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{what} are a mapping, not {type(given).__name__}")
    return dict(given)


def one_of(known: type[WordT], given: str, what: str, they: str) -> WordT:
    """Return the one of the `known` words that is `given`. `they` says what these are."""
    try:
        return known(given)
    except ValueError as error:
        words = ", ".join(each.value for each in known)
        raise ConfigurationError(f"{what}: {error}; {they} are {words}") from None


def a_time(given: object, what: str, *, from_zero: bool = False) -> float:
    """Return `given`, which must be a number of seconds above 0, or from 0, and a century at most."""
    seconds = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
    if 0 < seconds <= CENTURY_SECONDS or (from_zero and seconds == 0):
        return seconds
    least = "from 0" if from_zero else "above 0"
    most = ", a century at most" if seconds > CENTURY_SECONDS else ""
    raise ConfigurationError(f"{what} is a number of seconds {least}{most}, not {repr(given)[:100]}")


def a_function(given: T, what: str, *arguments: str) -> T:
    """Return `given`, which must be a function, or something else that can be called with what `arguments` names."""
    if not callable(given):
        raise ConfigurationError(f"{what} is a function, not {type(given).__name__}")
    try:
        if arguments:
            signature(given).bind(*arguments)
    except TypeError as error:
        name, said = getattr(given, "__qualname__", type(given).__name__), " and ".join(arguments)
        raise ConfigurationError(f"{what} is called with {said}, which {name} does not take: {error}") from None
    except ValueError:
        pass  # it has no signature that could be read
    return given


def a_plain_function(given: T, what: str, *arguments: str) -> T:
    """Return `given`, which must be a function that nobody awaits: what one with `async def` does would not happen."""
    a_function(given, what, *arguments)
    if iscoroutinefunction(given) or iscoroutinefunction(type(given).__call__):
        raise ConfigurationError(f"{what} is a plain function, and nobody awaits one that is async")
    return given


def a_kind_of(kind: type[T], given: object, what: str) -> T:
    """Return `given`, which must be of this class."""
    if not isinstance(given, kind):
        raise ConfigurationError(f"{what} is of the class {kind.__name__}, not {type(given).__name__}")
    return given
