"""Converts instants, which the log stores in microseconds of UTC. Only this domain module knows calendar types.

It never reads a clock: the present instant is always an argument.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Datetime: TypeAlias = datetime
"""An aware `datetime` in UTC."""


def to_datetime(microseconds: int) -> datetime:
    """Return an instant as an aware `datetime` in UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, tz=UTC)


def instant_text(at: int) -> str:
    """Return an instant in microseconds of UTC, in words."""
    return f"{to_datetime(at):%Y-%m-%d %H:%M:%S} UTC"


_BEGINNING = datetime.fromtimestamp(0, tz=UTC)


def from_iso(text: str) -> int:
    """Return an instant in ISO 8601, with its offset from UTC, in microseconds of UTC. Raises `ValueError`."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        msg = f"{text!r} does not say its offset from UTC"
        raise ValueError(msg)
    return from_datetime(read)


def from_datetime(when: datetime) -> int:
    """Return an aware `datetime` in microseconds of UTC."""
    return (when - _BEGINNING) // timedelta(microseconds=1)


def seconds_between(earlier: int, later: int) -> float:
    """Return the seconds from one instant to another; 0 when the later one is smaller, because a clock was set back."""
    return max(0, later - earlier) / 1e6
