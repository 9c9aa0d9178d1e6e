"""Reads times as people write them: on the command line, and in the addresses of the inspector."""

import re
from datetime import UTC, datetime, timedelta

_AGE = re.compile(r"([0-9]{1,6})(min|[mhdw])", re.ASCII)
_SECONDS = {"min": 60, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def age_of(text: str) -> timedelta | None:
    """Read an age such as `30min`, `12h`, `7d` or `2w`; None for any other text."""
    found = _AGE.fullmatch(text)
    return None if found is None else timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def time_of(text: str) -> datetime | timedelta:
    """Read how long ago a time is, or a time in ISO 8601, which is of UTC if it says no zone.

    Raises `ValueError`, which says what a time is, for any other text.
    """
    if (ago := age_of(text)) is not None:
        return ago
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        said = f"{text!r} is not a time: 30min, 12h, 7d, 2w ago, or a date such as 2026-03-01 or 2026-03-01T12:00Z"
        raise ValueError(said) from None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
