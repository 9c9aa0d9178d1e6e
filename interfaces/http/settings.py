"""The checks of what the HTTP applications are given: here, where the service begins, and not in each answer."""

from math import isfinite
from typing import Any, TypeVar

from steptrail.domain.errors import ConfigurationError

__all__ = ["checked_function", "checked_kind", "checked_number", "checked_seconds"]

T = TypeVar("T")


def checked_seconds(seconds: Any, name: str, *, may_be_none: bool = False) -> float:
    """Return a time above 0, or from 0 where it may be none at all. Raises `ConfigurationError` for anything else."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not isfinite(seconds) or seconds < 0 or (seconds == 0 and not may_be_none):
        least = "from 0" if may_be_none else "above 0"
        raise ConfigurationError(f"{name} is {repr(seconds)[:100]}: use a number of seconds {least}")
    return float(seconds)


def checked_number(number: Any, name: str, *, least: int) -> int:
    """Return a whole number that is not below `least`. Raises `ConfigurationError` for anything else."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ConfigurationError(f"{name} is {repr(number)[:100]}: use {least} or more")
    return number


def checked_function(given: T, name: str) -> T:
    """Return a function. Raises `ConfigurationError` for what cannot be called."""
    if not callable(given):
        raise ConfigurationError(f"{name} is a function that says who may, not {type(given).__name__}")
    return given


def checked_kind(given: Any, kind: type[T], name: str) -> T:
    """Return a value of this type. Raises `ConfigurationError` for anything else."""
    if not isinstance(given, kind):
        raise ConfigurationError(f"{name} is of type {kind.__name__}, not {type(given).__name__}")
    return given
