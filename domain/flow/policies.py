"""The settings by which a failure of a node is treated: how often it is tried, what it may cost, what may go wrong.

A node decides nothing. It returns or raises; the machine applies these settings and records which of them decided.
"""

from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta

from steptrail.domain.base import CENTURY_SECONDS, BoundedCount, BoundedPositive, PositiveSeconds, Seconds, Settings
from steptrail.domain.prices import USD_PLACES, wrong_money
from steptrail.domain.tools import ToolEffect


class FailureClass(StrEnum):
    """The class of a failure of a node. It is derived once, where the failure is caught, and recorded with it."""

    ERROR = "error"
    """A function raised an exception of no other class."""
    MODEL = "model"
    """A model call failed in a way that no other class names."""
    TOOL = "tool"
    """A tool failed in a way that no other class names."""
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    UNAVAILABLE = "unavailable"
    """The other side could not be reached, or broke off."""
    VALIDATION = "validation"
    """A value does not fit what was declared of it."""
    INCOMPLETE = "incomplete"
    """A model did not end its reply, for example because it reached its limit of tokens."""
    CONFIG = "config"
    """The node cannot run as it is written: a value is missing, a tool is unknown."""
    BUDGET = "budget"
    """The node, or the run, used more than its budget."""
    BLOCKED = "blocked"
    """A gate or a guardian did not let the run pass."""
    NO_MATCH = "no_match"
    """No case of a conditional or a router fits."""
    REJECTED = "rejected"
    """A person said no."""
    EXPIRED = "expired"
    """No person answered in time."""
    CONFLICT = "conflict"
    """Branches that meet have written different values under one key."""
    CHILD = "child"
    """The agent or the workflow that the node ran ended without an answer."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """The node was cut off and may have taken effect."""


FailureName = Literal[
    "error",
    "model",
    "tool",
    "timeout",
    "rate_limit",
    "unavailable",
    "validation",
    "incomplete",
    "config",
    "budget",
    "blocked",
    "no_match",
    "rejected",
    "expired",
    "conflict",
    "child",
    "unknown_outcome",
]
"""The name of a member of `FailureClass`."""
FailureGiven: TypeAlias = FailureClass | FailureName
"""A class of failures as people write it: a constructor makes a member of a name."""

if TYPE_CHECKING:
    FailureClasses: TypeAlias = tuple[FailureGiven, ...]
else:
    FailureClasses = tuple[FailureClass, ...]
"""Classes of failures in settings."""

NEVER_RETRIED = frozenset(
    {
        FailureClass.CONFIG,
        FailureClass.VALIDATION,
        FailureClass.BUDGET,
        FailureClass.BLOCKED,
        FailureClass.REJECTED,
        FailureClass.EXPIRED,
        FailureClass.CONFLICT,
        FailureClass.CHILD,
        FailureClass.INCOMPLETE,
        FailureClass.UNKNOWN_OUTCOME,
    }
)
"""The classes that are tried again only if a policy names them."""


class RetryPolicy(Settings, frozen=True, kw_only=True):
    """A rule by which a failed node is tried again.

    `max_attempts` counts all tries, the first included. After try k the node waits `backoff * k` seconds, at most
    `max_delay`; `jitter` is the fraction by which a wait may be shortened at random. `retry_on` names the classes of
    failures that are tried again. None stands for all that may pass by themselves: not the classes of `NEVER_RETRIED`,
    and no error that comes again every time. `count_interrupted` says whether a try that a crash cut off is one of
    `max_attempts`; the node is tried once more in any case.
    """

    max_attempts: BoundedPositive = 3
    backoff: Seconds = 1.0
    max_delay: PositiveSeconds | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0
    retry_on: FailureClasses | None = None
    count_interrupted: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if FailureClass.UNKNOWN_OUTCOME in (self.retry_on or ()):
            self.refuse("retry_on", "Expected no unknown outcome, because to try again might do twice what was done")

    def covers(self, failure: FailureClass, *, is_retryable: bool) -> bool:
        """Tell whether a failure is tried again. `is_retryable` is what was recorded of the error itself."""
        if self.retry_on is None:
            return is_retryable and failure not in NEVER_RETRIED
        return failure in self.retry_on

    def delay(self, failures: int, draw: float, retry_after: float | None = None) -> float:
        """Return the seconds to wait after failure number `failures`.

        `draw` is a random number in [0, 1). The wait is never shorter than `retry_after`, which the other side asked
        for, and a century at most, so that its end is a date.
        """
        most = float("inf") if self.max_delay is None else self.max_delay
        capped = min(self.backoff * failures, most)
        return min(max(capped * (1 - self.jitter * draw), retry_after or 0.0), CENTURY_SECONDS)


class OnError(StrEnum):
    """How the run goes on when a node has failed and is not tried again."""

    FAIL = "fail"
    """The run fails, unless it tolerates such failures."""
    CONTINUE = "continue"
    """The failure is recorded, the output is None, and the run goes on."""
    RECORD = "record"
    """The same as `CONTINUE`."""


class OnUnknownOutcome(StrEnum):
    """How a node goes on that was cut off and may have taken effect, although it may do that only once."""

    PARK = "park"
    """The run waits for a person who says what happened."""
    FAIL = "fail"
    """The node has failed, with the class `unknown_outcome`."""


UnpricedInFlow = Literal["fail_closed", "ignore"]
"""The way in which a limit on cost treats usage without a price: that passes the limit, or is not counted."""


class Budget(Settings, frozen=True, kw_only=True):
    """The most that may be used: tokens and US dollars. None, or 0, is no limit. A limit may be reached, not passed."""

    max_input_tokens: BoundedCount | None = None
    max_output_tokens: BoundedCount | None = None
    max_total_tokens: BoundedCount | None = None
    max_cost_usd: Decimal | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_cost_usd is not None and (why := wrong_money(self.max_cost_usd, USD_PLACES)):
            self.refuse("max_cost_usd", why)


CACHEABLE = frozenset({ToolEffect.READ, ToolEffect.IDEMPOTENT})
"""The effects of which a kept result may stand for another try."""


class Cache(Settings, frozen=True, kw_only=True):
    """Results of a node are kept within one run, under the values of these variables, for at most `ttl` seconds."""

    key: tuple[str, ...] = ()
    ttl: PositiveSeconds | None = None
