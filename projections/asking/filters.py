"""Which runs a list shows, and in which order."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, get_args

from msgspec import Struct

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import from_datetime, from_iso

__all__ = ["MEASURES", "Measure", "RunFilter", "RunOrder", "Since", "instant_of"]

Since = datetime | timedelta | None
"""An instant, or how long ago; None for from the beginning."""

Measure = Literal["cost", "tokens", "active", "wall", "steps", "retries"]
"""Something of a run that has a size: a cost in dollars, a time in seconds, or a count."""

MEASURES: Mapping[Measure, tuple[str, int]] = {
    "cost": ("cost_nanos", 1_000_000_000),
    "tokens": ("", 1),
    "active": ("active_us", 1_000_000),
    "wall": ("wall_us", 1_000_000),
    "steps": ("steps", 1),
    "retries": ("retries", 1),
}
"""Each measure -> its column, and how many of the units of the column are one; tokens are the sum of five columns."""

_WORDS = (
    "status",
    "stop_reason",
    "resolved_by",
    "agent",
    "model",
    "tenant",
    "tool",
    "effect",
    "error_type",
    "error_class",
    "signature",
    "parent",
    "root",
    "stream",
    "waits_for",
)
_LARGEST = 2**63 - 1
_EARLIEST, _LATEST = (from_datetime(datetime(year, 1, 1, tzinfo=UTC)) for year in (1, 9999))
"""No run began or ended before or after that, and a calendar has no days there."""


class RunOrder(StrEnum):
    """The order of a list of runs; of equals, the one that began last comes first."""

    NEWEST = "newest"
    """The one that began last first: no row moves while others are added."""
    OLDEST = "oldest"
    DEAREST = "dearest"
    """The one that cost most first. A run without a cost is not in the list."""
    SLOWEST = "slowest"
    """The one that was at work longest first."""
    MOST_RETRIES = "most_retries"


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to show: all that is given must hold. A word may be several, of which one must hold.

    `status` may be `crashed` too: a run is in progress and no process runs it. `agent` is the name of an agent or of a
    workflow, `stream` the id of a stream with its prefix, `parent` and `root` ids of streams above. `tool` and `effect`
    ask for runs with a call of this tool, or a visit of this node, and of this effect class, that did not complete.
    `error_type`, `error_class` and `signature` are those of the error because of which a run failed. Every tag must be
    there. `since` and `until` are about the instant at which a run began. `least` and `most` bound measures; a run
    without a cost is within no bound of it.
    """

    status: str | Collection[str] | None = None
    stop_reason: str | Collection[str] | None = None
    resolved_by: str | Collection[str] | None = None
    agent: str | Collection[str] | None = None
    model: str | Collection[str] | None = None
    tenant: str | Collection[str] | None = None
    tool: str | Collection[str] | None = None
    effect: str | Collection[str] | None = None
    error_type: str | Collection[str] | None = None
    error_class: str | Collection[str] | None = None
    signature: str | Collection[str] | None = None
    parent: str | Collection[str] | None = None
    root: str | Collection[str] | None = None
    stream: str | Collection[str] | None = None
    waits_for: str | Collection[str] | None = None
    tags: Mapping[str, str] = {}
    since: Since = None
    until: Since = None
    least: Mapping[Measure, float] = {}
    most: Mapping[Measure, float] = {}

    def __post_init__(self) -> None:
        for name in _WORDS:
            if getattr(self, name) is not None and not self.words(name):
                raise ConfigurationError(f"a filter needs one {name} at least, or None")
        for bounds in (self.least, self.most):
            for measure, bound in bounds.items():
                if measure not in get_args(Measure):
                    raise ConfigurationError(f"a run has no {measure!r}: there are {', '.join(get_args(Measure))}")
                # Also false of what is no number.
                if not 0 <= bound * MEASURES[measure][1] <= _LARGEST:
                    raise ConfigurationError(f"the bound {bound!r} of {measure} is no size")
        for instant in (self.since, self.until):
            instant_of(instant, 0)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words that a field is asked for, each once; empty for all."""
        given: str | Collection[str] | None = getattr(self, name)
        return () if given is None else (given,) if isinstance(given, str) else tuple(sorted(set(given)))


def instant_of(since: Since, now: int) -> int | None:
    """Return an instant in microseconds of UTC. Raises `ConfigurationError` for one without an offset from UTC."""
    if since is None:
        return None
    if isinstance(since, timedelta):
        return max(_EARLIEST, min(now - since // timedelta(microseconds=1), _LATEST))
    try:
        return max(_EARLIEST, min(from_iso(since.isoformat()), _LATEST))
    except ValueError as error:
        raise ConfigurationError(f"an instant needs its offset from UTC: {error}") from error
