"""Which runs a list shows, and in which order."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from math import ceil, floor
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from msgspec import Struct
from msgspec.structs import fields

from steptrail.domain.base import LARGEST, repr_of
from steptrail.domain.errors import ConfigurationError, shown
from steptrail.domain.instants import from_datetime, from_iso
from steptrail.domain.kernel.given import a_text
from steptrail.domain.shared.events import LARGEST_SCORE, WaitKind
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.scores import score_name
from steptrail.domain.shared.tags import MOST_TAGS
from steptrail.domain.tools import ToolEffect
from steptrail.projections.scores import value_said

Since = datetime | timedelta | None
"""An instant, or how long ago; None for from the beginning."""

Words = str | Collection[str] | None
"""The texts that a field of a filter asks for: one, or several of which one must hold; None for any."""

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

CRASHED: Final = "crashed"
"""A status that only filters know: a run is in progress, and no process runs it."""

_KNOWN: Mapping[str, Collection[str]] = {
    "status": (*(each.value for each in ExecutionStatus), CRASHED),
    "stop_reason": [each.value for each in StopReason],
    "effect": [each.value for each in ToolEffect],
    "waits_for": get_args(WaitKind),
}
"""The fields whose words are ours. No run has another one there, so it is a mistake and not a list of none."""
_MOST_WORDS, _MOST_NAMED = 1_000, 10
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


_CONDITION = re.compile(r"\s*([^<>=]*[^<>=\s])\s*(?:(>=|<=|>|<|=)\s*(.*\S))?\s*", re.DOTALL)


class ScoreCondition(NamedTuple):
    """A condition on a score: its name, then a sign and a number in millionths or a label; both None for any value."""

    name: str
    sign: str | None
    value: int | str | None


def score_condition(text: str) -> ScoreCondition:
    """Return the condition that a text says: `helpful`, `helpful>=0.5`, `safe=yes` or `tone=formal`.

    Raises `ConfigurationError` for a text that is none.
    """
    said = _CONDITION.fullmatch(text)
    if said is None:
        raise ConfigurationError(f"{shown(text)} is no condition on a score, such as helpful>=0.5 or tone=formal")
    name, sign = score_name(said[1]), said[2]
    if sign is None:
        return ScoreCondition(name, None, None)
    value = value_said(said[3])
    if not isinstance(value, str) and -LARGEST_SCORE <= value <= LARGEST_SCORE:
        return ScoreCondition(name, sign, round(value * 1_000_000))
    if sign != "=":
        raise ConfigurationError(f"{shown(text)}: {shown(said[3])} is no number that a score may be")
    return ScoreCondition(name, sign, said[3])


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to show: all that is given must hold. A word may be several, of which one must hold.

    `status` may be `crashed` too: a run is in progress and no process runs it. `agent` is the name of an agent or of a
    workflow, `stream` the id of a stream with its prefix, `parent` and `root` ids of streams above. `tool` and `effect`
    ask for runs with a call of this tool, or a visit of this node, and of this effect class, that did not complete.
    `error_type`, `error_class` and `signature` are those of the error because of which a run failed. Every tag must be
    there. A run began at `since` or later, and before `until`. `least` and `most` bound measures; a run without a cost
    is within no bound of it. `scores` are conditions on scores of the run as a whole, by anybody, which must all
    hold: `helpful>=0.5`, `tone=formal`, or `helpful` for any value.
    """

    status: Words = None
    stop_reason: Words = None
    resolved_by: Words = None
    agent: Words = None
    model: Words = None
    tenant: Words = None
    tool: Words = None
    effect: Words = None
    error_type: Words = None
    error_class: Words = None
    signature: Words = None
    parent: Words = None
    root: Words = None
    stream: Words = None
    waits_for: Words = None
    tags: Mapping[str, str] = {}
    since: Since = None
    until: Since = None
    least: Mapping[Measure, float] = {}
    most: Mapping[Measure, float] = {}
    scores: Sequence[str] = ()

    def __post_init__(self) -> None:
        faults = [fault for name in _WORDS for fault in _wrong_words(name, getattr(self, name))]
        faults += _wrong_tags(self.tags)
        faults += [fault for name in ("least", "most") for fault in _wrong_bounds(name, getattr(self, name))]
        faults += _wrong_scores(self.scores)
        for instant in (self.since, self.until):
            try:
                instant_of(instant, 0)
            except ConfigurationError as error:
                faults.append(str(error))
        if faults:
            raise ConfigurationError("; ".join(faults))

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words that a field is asked for, each once; empty for all."""
        given: Words = getattr(self, name)
        return () if given is None else (given,) if isinstance(given, str) else tuple(sorted(set(given)))


_WORDS = [field.name for field in fields(RunFilter) if field.type == Words]


def one_text(name: str, given: Any) -> None:
    """Raise the `ConfigurationError` about an argument that is neither a text nor None."""
    if not isinstance(given, str | None):
        raise ConfigurationError(f"{name} is a text or None, not {repr_of(given)}")


def bound_of(name: Literal["least", "most"], measure: Measure, bound: float) -> int:
    """Return a bound in the units of the column of its measure.

    A count is whole, so no run is between two of them: 2.5 at least is 3, and 2.5 at most is 2.
    """
    unit = MEASURES[measure][1]
    if unit == 1:
        return ceil(bound) if name == "least" else floor(bound)
    return round(bound * unit)


def any_of(words: Iterable[object]) -> str:
    """Return words for an error that names them: at most ten."""
    named = [repr_of(word) for word in islice(words, _MOST_NAMED + 1)]
    return " or ".join(named if len(named) <= _MOST_NAMED else [*named[:_MOST_NAMED], "another"])


def _wrong_words(name: str, words: object) -> Iterator[str]:
    if words is None:
        return
    given = cast("Collection[object]", [words] if isinstance(words, str) else words)
    # An iterator is used up by whoever looks at it first: the filter would find every run after that.
    if not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"{name} of a filter is a text or a collection of texts, not {repr_of(given)}"
    elif not given:
        yield f"a filter needs one {name} at least, or None"
    elif len(given) > _MOST_WORDS:
        yield f"a filter has at most {_MOST_WORDS:,} of {name}, not {len(given):,}"
    elif (known := _KNOWN.get(name)) and (strange := [word for word in given if word not in known]):
        yield f"no run has the {name} {any_of(strange)}: there are {', '.join(known)}"


def _wrong_tags(tags: object) -> Iterator[str]:
    given = cast("Mapping[object, object]", tags)
    if not isinstance(tags, Mapping):
        yield f"tags of a filter are a mapping from names to texts, not {repr_of(given)}"
    elif len(given) > MOST_TAGS:
        yield f"no run has more than {MOST_TAGS} tags, and the filter asks for {len(given):,}"
    else:
        for name, value in given.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                yield f"a tag of a filter is a name and a text, not {repr_of(name)} and {repr_of(value)}"


def _wrong_scores(scores: object) -> Iterator[str]:
    given = cast("Collection[object]", scores)
    if isinstance(scores, str) or not isinstance(scores, Collection):
        yield f"scores of a filter are a list of conditions, not {repr_of(given)}"
    elif len(given) > _MOST_NAMED:
        yield f"a filter has at most {_MOST_NAMED} conditions on scores, not {len(given):,}"
    else:
        for each in given:
            try:
                score_condition(a_text(each, "a condition on a score"))
            except ConfigurationError as error:
                yield str(error)


def _wrong_bounds(name: str, bounds: object) -> Iterator[str]:
    given = cast("Mapping[Any, Any]", bounds)
    if not isinstance(bounds, Mapping):
        yield f"{name} of a filter is a mapping from measures to numbers, not {repr_of(given)}"
        return
    if strange := [measure for measure in given if measure not in get_args(Measure)]:
        yield f"a run has no {any_of(strange)}: there are {', '.join(get_args(Measure))}"
    for measure, bound in given.items():
        is_number = isinstance(bound, int | float) or (isinstance(bound, Decimal) and bound.is_finite())
        # The comparison is also false of NaN.
        if measure in MEASURES and not (is_number and 0 <= bound * MEASURES[measure][1] <= LARGEST):
            yield f"the bound {repr_of(bound)} of {measure} is no size"


def instant_of(since: Since, now: int) -> int | None:
    """Return an instant in microseconds of UTC. Raises `ConfigurationError` for one without an offset from UTC."""
    if since is None:
        return None
    if not isinstance(since, date | timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"an instant is a datetime, or a timedelta for how long ago, not {repr_of(since)}")
    if isinstance(since, timedelta):
        return max(_EARLIEST, min(now - since // timedelta(microseconds=1), _LATEST))
    try:
        return max(_EARLIEST, min(from_iso(since.isoformat()), _LATEST))
    except ValueError as error:
        raise ConfigurationError(f"an instant needs its offset from UTC: {error}") from error
