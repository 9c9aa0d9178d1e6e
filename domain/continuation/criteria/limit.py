"""The base of limits: guards that vote by a setting of `Limits`. All knowledge of a limit is in its class."""

from collections.abc import Callable, Mapping
from math import isfinite
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from steptrail.domain.continuation.built_in import Guard
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context, number
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView

LimitUnit = Literal["count", "seconds", "usd"]
"""The kind of number of a limit, by which the command line parses it."""

N = TypeVar("N", bound=float)


class More(NamedTuple):
    """New values for settings of `Limits` with which a run would have gone on, and a text that says so to a person."""

    text: str
    settings: Mapping[str, object]


class Limit(Guard):
    """A guard that votes by a setting of `Limits`. The command-line option and the advice come from its class."""

    __slots__ = ()

    counts: ClassVar[str]
    """The unit that is counted, in words for people."""
    unit: ClassVar[LimitUnit | None] = None
    """The kind of its number; None for a limit that is no number and has no option on the command line."""
    made_of: ClassVar[tuple[str, ...]] = ()
    """The settings that are the arguments of the criterion, in order; empty if its own setting is the only one."""

    @classmethod
    def made(cls, *settings: Any) -> "Limit":
        """Return the criterion that votes by these settings."""
        make: Callable[..., Limit] = cls
        return make(*settings)

    @classmethod
    def more(cls, setting: str, context: Context, now: Any) -> More:
        """Return the settings that would have prevented a forbid with this context. `setting` has the value `now`."""
        raise NotImplementedError


class _NumberLimit(Limit, Struct, Generic[N], frozen=True):
    """Forbids when the amount that an execution has used reaches `most`. `counter` replaces `own_count`."""

    most: N
    counter: Callable[[StateView], N] | None = None

    keys: ClassVar[tuple[str, str]]
    """The keys of the used and of the allowed amount in a vote's context."""
    labels: ClassVar[tuple[str, str]]
    """The words of a vote at the limit, and under it."""
    stop_reason: ClassVar[StopReason]
    own_count: ClassVar["attrgetter[Any]"]
    """Returns the amount that an execution has used, from the state."""

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with the used and the allowed amount under `keys`."""
        used = (self.counter or self.own_count)(state)
        now, most = self.keys
        return self._vote({now: used, most: self.most}, self.stop_reason if used >= self.most else None, is_limit=True)

    @classmethod
    def more(cls, setting: str, context: Context, now: Any) -> More:
        """Return the next whole number above the used amount."""
        value = int(number(context, cls.keys[0])) + 1
        return More(f"{setting}={value}{' seconds' if cls.unit == 'seconds' else ''} or more", {setting: value})

    @classmethod
    def _words(cls, forbids: bool, context: Context) -> str:
        used, most = (context[key] for key in cls.keys)
        return f"{cls.labels[0 if forbids else 1]}: {used}/{most}"


class CountLimit(_NumberLimit[int], frozen=True):
    """A limit on a whole number, from `least` (0 or 1). Raises `ConfigurationError` for any other."""

    unit: ClassVar[LimitUnit | None] = "count"
    least: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_count(_in_words(self.keys[1]), self.most, least=self.least)


class TimeLimit(_NumberLimit[float], frozen=True):
    """A limit on a time in seconds. Raises `ConfigurationError` unless it is positive and finite."""

    unit: ClassVar[LimitUnit | None] = "seconds"
    stop_reason: ClassVar[StopReason] = StopReason.TIME_LIMIT

    def __post_init__(self) -> None:
        given: Any = self.most
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise ConfigurationError(f"{_in_words(self.keys[1])} must be a number, it is {given!r}.")
        if not (isfinite(given) and given > 0):
            raise ConfigurationError(f"{_in_words(self.keys[1])} must be greater than zero.")


def check_count(what: str, value: object, *, least: int = 0) -> None:
    """Raise `ConfigurationError` for a value that is no whole number, or less than `least` (0 or 1)."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{what} must be a whole number, it is {value!r}.")
    if value < least:
        rule = "be greater than zero" if least else "not be negative"
        raise ConfigurationError(f"{what} must {rule}, it is {value}.")


def _in_words(key: str) -> str:
    """Return `maxSteps` as `Max steps`."""
    return "".join([f" {letter}" if letter.isupper() else letter for letter in key]).capitalize()
