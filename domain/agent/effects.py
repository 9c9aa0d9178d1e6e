"""What the machine asks the runtime to do next. Each effect is performed once and answered with events."""

from dataclasses import dataclass

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.decisions import DecisionPhase, WaitKind
from steptrail.domain.failures import ErrorType

__all__ = [
    "CallModel",
    "Effect",
    "ExecuteCalls",
    "Record",
    "RunHooks",
    "ScheduleRetry",
    "ScheduleToolRetry",
    "StartCall",
    "StartInference",
    "TakeDecision",
    "Wait",
]


@dataclass(frozen=True, slots=True)
class Record:
    """Record these conclusions; nothing outside has to happen for them."""

    events: tuple[AgentEvent, ...]


@dataclass(frozen=True, slots=True)
class RunHooks:
    """Run the hooks of one phase. `position` is the tool call they are about."""

    hook_type: str
    step: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class TakeDecision:
    """Let the criteria vote and resolve all votes. On `resume` only guards vote; on `stop` nobody new does.

    With `until` (microseconds of UTC) they vote on the run as it would stand then, if it did nothing but wait.
    """

    step: int
    phase: DecisionPhase
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRetry:
    """Choose the delay before another try and record it."""

    error_type: ErrorType
    failures: int
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class ScheduleToolRetry:
    """Choose the delay before a failed call is tried again and record it."""

    position: int


@dataclass(frozen=True, slots=True)
class StartInference:
    """Build the request and record that the model is about to be called."""

    step: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model. What led here must be durable first."""

    step: int


@dataclass(frozen=True, slots=True)
class StartCall:
    """Record that the tool is about to run."""

    position: int


@dataclass(frozen=True, slots=True)
class ExecuteCalls:
    """Run these tools at once, and come back when one of them ends, or at `until` (microseconds of UTC).

    Those that run already go on. What led here must be durable first.
    """

    positions: tuple[int, ...]
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before `until` (microseconds of UTC), or before a command when there is none."""

    kind: WaitKind
    until: int | None


Effect = (
    Record
    | RunHooks
    | TakeDecision
    | ScheduleRetry
    | ScheduleToolRetry
    | StartInference
    | CallModel
    | StartCall
    | ExecuteCalls
    | Wait
)
