"""The effects that the machine of a session asks the runtime for. Each is performed once and answered with events."""

from dataclasses import dataclass, field

from msgspec import Struct

from steptrail.domain.agent.compacting import Plan
from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.failures import ErrorType
from steptrail.domain.shared.events import WaitKind


class Record(Struct, frozen=True):
    """Record these events, which follow from the state alone."""

    events: tuple[AgentEvent, ...]


class RunHooks(Struct, frozen=True):
    """Run the hooks of one type. `position` is that of the tool call; None for hooks about no call."""

    hook_type: str
    step: int
    position: int | None = None


class TakeDecision(Struct, frozen=True):
    """Let the criteria vote, and resolve all votes. On `resume` only guards vote; on `stop` no criterion votes again.

    With `until` (microseconds of UTC), they vote on the state that the run will have then if it only waits. If it
    `spares_limits`, a limit that is reached has no vote: the run comes to an end of its own, or to the decision after
    the step, where limits vote.
    """

    step: int
    phase: DecisionPhase
    until: int | None = None
    spares_limits: bool = False


class ScheduleRetry(Struct, frozen=True):
    """Choose the delay before another try and record it."""

    error_type: ErrorType
    failures: int
    retry_after: float | None


class ScheduleToolRetry(Struct, frozen=True):
    """Choose the delay before a failed call is tried again and record it."""

    position: int


class ResolveInstructions(Struct, frozen=True):
    """Ask the functions of these instructions, and record the texts that changed and the start of the step."""

    step: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """Compact the conversation. A summary is asked for, until `deadline` at the latest, when all before is durable."""

    plan: Plan
    deadline: Deadline | None = field(default=None, compare=False)


class StartInference(Struct, frozen=True):
    """Build the request and record that the model is about to be called."""

    step: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model, until `deadline` at the latest. The events before must be durable first."""

    step: int
    deadline: Deadline | None = field(default=None, compare=False)


class JudgeAnswer(Struct, frozen=True):
    """Judge the answer of the step by the type of the agent's output and by the validators."""

    step: int


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Record that the tools of `starts` are about to run, and run them beside those that are `running` already.

    The effect ends when one of them ends, or at `until` (microseconds of UTC). None of them runs beyond `deadline`. The
    events before must be durable first. If a call cannot start, the machine is asked again before any tool runs.
    """

    starts: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    until: int | None = None
    deadline: Deadline | None = field(default=None, compare=False)


class AskPeople(Struct, frozen=True):
    """Record that people are asked about calls.

    A call whose arguments do not fit its tool fails instead, and nobody is asked yet: the machine is asked again.
    """

    events: tuple[AgentEvent, ...]


class KeepWaiting(Struct, frozen=True):
    """Wait until `until` (microseconds of UTC). None means that only a command ends the wait."""

    kind: WaitKind
    until: int | None


Effect = (
    Record
    | RunHooks
    | TakeDecision
    | ScheduleRetry
    | ScheduleToolRetry
    | ResolveInstructions
    | Compact
    | StartInference
    | CallModel
    | JudgeAnswer
    | RunCalls
    | AskPeople
    | KeepWaiting
)
