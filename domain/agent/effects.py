"""What the machine asks the runtime to do next. Each effect is performed once and answered with events."""

from dataclasses import dataclass, field

from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.failures import ErrorType
from steptrail.domain.shared.events import WaitKind

__all__ = [
    "CallModel",
    "Effect",
    "KeepWaiting",
    "Record",
    "RunCalls",
    "RunHooks",
    "ScheduleRetry",
    "ScheduleToolRetry",
    "StartInference",
    "TakeDecision",
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
    """Call the model, until `deadline` at the latest. What led here must be durable first."""

    step: int
    deadline: Deadline | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Record that the tools of `starts` are about to run, and run them beside those that are `running` already.

    Come back when one of them ends, or at `until` (microseconds of UTC). None of them runs beyond `deadline`. What led
    here must be durable first. Where a start comes to nothing, the machine is asked again before anything runs.
    """

    starts: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    until: int | None = None
    deadline: Deadline | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KeepWaiting:
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
    | RunCalls
    | KeepWaiting
)
