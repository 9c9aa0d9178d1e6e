"""A recording as what can be played back: each effect with its end, and each command with its time.

An effect is one try of a model call or of a tool call. A command that came while effects were in flight belongs to one
of them. Any other found the session at rest; the replaying process gives it again at that point.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.effects import Compact, ResolveInstructions
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalGranted,
    ConversationCompacted,
    EvaluationsRecorded,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
    InstructionsResolved,
    MessagesAppended,
    MetadataChanged,
    ModelSwitched,
    PauseLifted,
    PauseRequested,
    SessionForked,
    SessionStarted,
    StopRequested,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    WaitEnded,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.request import recorded_requests

InferenceEnd: TypeAlias = InferenceCompleted | InferenceFailed | InferenceInterrupted
ToolEnd: TypeAlias = ToolExecutionCompleted | ToolExecutionFailed | ToolExecutionInterrupted | ToolExecutionSuspended

EndT = TypeVar("EndT", bound=AgentEvent)
_COMMANDS = (
    ApprovalDenied,
    ApprovalGranted,
    ExecutionResumed,
    ExecutionStarted,
    MessagesAppended,
    PauseLifted,
    PauseRequested,
    StopRequested,
)
_AT_REST = frozenset({Phase.ABSENT, Phase.IDLE, Phase.PENDING, Phase.PAUSED, Phase.UNPAUSED, Phase.WAITING})


@dataclass(frozen=True)
class Command:
    """A command to the session, as the event that it led to.

    `effect_id` is the call that a verdict is about, or that is external and that it `answers`. `metadata` is the
    metadata that came with an input.
    """

    version: int
    at: int
    event: AgentEvent
    effect_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    answers: bool = False


@dataclass(kw_only=True)
class RecordedEffect(Generic[EndT]):
    """One try of a call. `ended_at` is an instant; an effect that the recording leaves open has none, and no end.

    `left_by` says why it has none.
    """

    end: EndT | None = None
    ended_at: int | None = None
    commands: list[Command] = field(default_factory=list[Command])
    ended_before_the_cut: int = 0
    """How many tool calls had ended by themselves when a crash or its caller cut it off: they do so again first."""
    left_by: str = "crash"

    @property
    def was_cut_by(self) -> str | None:
        """The reason why it was cut off; None for an effect that came to its end."""
        if self.end is None:
            return self.left_by
        return self.end.reason if isinstance(self.end, InferenceInterrupted | ToolExecutionInterrupted) else None


@dataclass(kw_only=True)
class RecordedInference(RecordedEffect[InferenceEnd]):
    """One try of a model call: `index` counts the calls that had ended before."""

    index: int
    step: int
    request: ModelRequest
    digest: str


@dataclass(kw_only=True)
class RecordedCall(RecordedEffect[ToolEnd]):
    """One try of a tool call."""

    tool: str
    digest: str
    arguments: JsonValue
    effect_id: str


@dataclass(kw_only=True)
class RecordedSummary(RecordedEffect[ConversationCompacted]):
    """One try of a summary: `number` counts the summaries before. No event says that it began, so it did when due."""

    number: int


@dataclass(kw_only=True)
class RecordedInstructions(RecordedEffect[AgentEvent]):
    """One time that functions of instructions were asked; as with a summary, when they were due.

    `given` are the texts that changed, and the failure of a function, by name.
    """

    given: dict[str, AgentEvent] = field(default_factory=dict[str, AgentEvent])


def place_of(state: AgentState) -> tuple[int, int]:
    """Return the place in a run before the next step: how many executions and steps there are."""
    return state.fold.executions, state.step_count


def ended_by_itself(event: AgentEvent) -> bool:
    """Tell whether a tool call came to an end that nobody else gave it."""
    if isinstance(event, ToolExecutionCompleted | ToolExecutionFailed):
        return event.settled_by is None and not (isinstance(event, ToolExecutionFailed) and event.expired)
    if isinstance(event, ToolExecutionInterrupted):
        return event.cut_by is not None
    return isinstance(event, ToolExecutionSuspended)


class RecordedRun:
    """The parts of a recording, in order. `obstacles` say why the whole run cannot be driven again, if it cannot.

    Model calls and summaries lie under their numbers, instructions under the places where they were asked for.
    `history` is the conversation that the session began with, when it was given one. Of a fork that `is_driven` only
    its own part is played back: its past is there when it begins.
    """

    def __init__(self, recording: Recording, *, is_driven: bool = False) -> None:
        self.inferences: dict[int, list[RecordedInference]] = defaultdict(list)
        self.calls: list[RecordedCall] = []
        self.summaries: dict[int, list[RecordedSummary]] = defaultdict(list)
        self.instructions: dict[tuple[int, int], list[RecordedInstructions]] = defaultdict(list)
        self.commands: list[Command] = []
        self.obstacles: list[str] = []
        self.history: tuple[Message, ...] = ()
        self._metadata: Mapping[str, JsonValue] = {}
        self._requests = {
            index: (request, digest)
            for index, request, digest in recorded_requests(recording.session, recording.records)
        }
        self._inference: RecordedInference | None = None
        self._newest_inference: RecordedInference | None = None
        self._unsaid: RecordedSummary | RecordedInstructions | None = None
        self._running: dict[int, RecordedCall] = {}
        self._crashed: dict[int, RecordedCall] = {}
        self._ended = 0
        self._is_driven = is_driven
        self._has_been_cancelled = False
        state = initial(recording.session)
        for index, record in enumerate(recording.records):
            self._take_unsaid(record, state)
            self._take(index, record, state)
            state = evolve_all(state, (record,))

    @property
    def _in_flight(self) -> Sequence[RecordedEffect[Any]]:
        alone = [effect for effect in (self._inference, self._unsaid) if effect is not None]
        return [*alone, *self._running.values()]

    def _take_unsaid(self, record: Recorded[AgentEvent], state: AgentState) -> None:
        """Take in that an effect was due before `record` whose beginning no event says, or that it is over with it."""
        event = record.event
        if isinstance(event, ModelSwitched):
            return  # it is a part of the decision before it, so nothing has begun in between
        if self._unsaid is None:
            match next_effects(state, state.fold.updated_at):
                case (Compact(plan=plan),) if plan.summarises:
                    self._unsaid = RecordedSummary(number=state.fold.shortened.asked)
                    self.summaries[self._unsaid.number].append(self._unsaid)
                case (ResolveInstructions(),):
                    self._unsaid = RecordedInstructions()
                    self.instructions[place_of(state)].append(self._unsaid)
                case _:
                    return
        if isinstance(event, _COMMANDS):
            return
        if isinstance(self._unsaid, RecordedInstructions):
            if self._unsaid.left_by == "crash":
                self._unsaid.end, self._unsaid.ended_at = event, record.at
            if isinstance(event, InstructionsResolved):
                self._unsaid.given[event.name] = event
                return  # another text may have changed as well
            if isinstance(event, EvaluationsRecorded) and event.hook is not None:
                self._unsaid.given[event.hook] = event
        elif isinstance(event, ConversationCompacted):
            self._unsaid.end, self._unsaid.ended_at = event, record.at
        elif any(isinstance(command.event, StopRequested) for command in self._unsaid.commands):
            self._unsaid.left_by = "stop"
        elif self._unsaid.left_by == "crash":  # nobody cut it off, so it was never begun
            self.summaries[self._unsaid.number].pop()
            self._obstacle(record, "what it follows from came between two effects")
        self._unsaid = None

    def _take(self, index: int, record: Recorded[AgentEvent], state: AgentState) -> None:
        event, at = record.event, record.at
        match event:
            case InferenceStarted() if index in self._requests:
                request, digest = self._requests[index]
                index = state.fold.inferences
                asked = RecordedInference(index=index, step=event.step, request=request, digest=digest)
                self._inference = self._newest_inference = asked
                self.inferences[index].append(asked)
            case InferenceCompleted() | InferenceFailed() | InferenceInterrupted():
                # A crash is recorded by the next segment, when its call is no longer in flight.
                open_one = self._newest_inference
                if open_one is not None and open_one.end is None:
                    open_one.end, open_one.ended_at = event, at
                self._inference = None
                self._note_cancelled(event)
            case ToolExecutionStarted():
                call = state.tool_executions[event.position]
                started = RecordedCall(
                    tool=event.tool,
                    digest=event.arguments_digest,
                    arguments=call.arguments if call.arguments is not None else call.call.raw,
                    effect_id=event.effect_id,
                )
                self.calls.append(started)
                self._running[event.position] = started
                self._crashed.pop(event.position, None)
            case (
                ToolExecutionCompleted() | ToolExecutionFailed() | ToolExecutionInterrupted() | ToolExecutionSuspended()
            ):
                self._call_ended(record, event, state)
            case ToolExecutionSettledLate():
                self._obstacle(record, "a worker that had lost the session reported late")
            case SessionForked():
                if self._is_driven:
                    self.calls, self.obstacles, self._ended, self._newest_inference = [], [], 0, None
                    self.inferences.clear()
                    self.summaries.clear()
                    self.instructions.clear()
                self.commands = [Command(record.version, at, event)]
            case WaitEnded(reason="rerun" | "tell") if event.is_verdict:
                parked = next((call for call in state.tool_executions if call.phase is CallPhase.PARKED), None)
                self._command(record, state, parked.effect_id if parked is not None else None)
            case ExecutionResumed():
                self._resumed(record, event, state)
            case MessagesAppended(source="hook"):
                pass
            case MessagesAppended(messages=messages) if state.execution is None:
                self.history = messages
            case SessionStarted(metadata=metadata):
                self._metadata = metadata
            case MetadataChanged(changes=changes) if state.phase is Phase.IDLE:
                self._metadata = changes
            case _ if isinstance(event, _COMMANDS):
                self._command(record, state)
            case _:
                pass

    def _call_ended(self, record: Recorded[AgentEvent], event: ToolEnd, state: AgentState) -> None:
        settled_by = getattr(event, "settled_by", None)
        if settled_by is not None:
            call = state.tool_executions[event.position]
            self._command(record, state, call.effect_id, answers=call.phase is CallPhase.DEFERRED)
            return
        ended = self._running.pop(event.position, None) or self._crashed.pop(event.position, None)
        if ended is not None:
            ended.end, ended.ended_at = event, record.at
            if ended.was_cut_by == "cancelled":
                ended.ended_before_the_cut = self._ended
        self._ended += ended_by_itself(event)
        self._note_cancelled(event)

    def _resumed(self, record: Recorded[AgentEvent], event: ExecutionResumed, state: AgentState) -> None:
        in_flight = self._in_flight
        for effect in in_flight:
            effect.ended_before_the_cut = self._ended
        self._crashed, self._running = {**self._crashed, **self._running}, {}
        self._inference = self._unsaid = None
        if not in_flight and not _rests(state):
            # The process died between two effects: what was lost is only what the machine concludes again.
            if any(given is not None for given in (event.limits, event.error_policy, event.agent, event.context)):
                self._obstacle(record, "it was resumed with other settings after a crash between two effects")
            return
        self.commands.append(Command(record.version, record.at, event))

    def _command(
        self, record: Recorded[AgentEvent], state: AgentState, effect_id: str | None = None, *, answers: bool = False
    ) -> None:
        event = record.event
        command = Command(record.version, record.at, event, effect_id, self._metadata, answers=answers)
        self._metadata = {}
        if isinstance(event, PauseRequested) and (event.by, event.reason) == ("caller", "cancelled"):
            self._cancelled(record)
        elif in_flight := self._in_flight:
            in_flight[0].commands.append(command)
        elif isinstance(event, StopRequested | PauseRequested) and self._has_just_resumed(record):
            self.commands[-1] = command  # a command to a session that nobody runs resumes it to carry it out
        elif _rests(state) and not _waits_for_a_retry(state):
            self.commands.append(command)
        else:
            self._obstacle(record, "it came between two effects, where a replay has no place for it")

    def _has_just_resumed(self, record: Recorded[AgentEvent]) -> bool:
        last = self.commands[-1] if self.commands else None
        return last is not None and isinstance(last.event, ExecutionResumed) and last.version == record.version - 1

    def _cancelled(self, record: Recorded[AgentEvent]) -> None:
        if self._unsaid is not None:
            self._unsaid.left_by = "cancelled"
        elif not self._has_been_cancelled:
            self._obstacle(record, "its caller was cancelled between two effects")
        self._has_been_cancelled = False

    def _note_cancelled(self, event: AgentEvent) -> None:
        # The effects of a cancelled caller are recorded first, and then that it was.
        if isinstance(event, InferenceInterrupted | ToolExecutionInterrupted) and event.reason == "cancelled":
            self._has_been_cancelled = True

    def _obstacle(self, record: Recorded[AgentEvent], why: str) -> None:
        self.obstacles.append(f"event {record.version} ({record.event.TYPE}): {why}")


def _rests(state: AgentState) -> bool:
    """Tell whether no process had anything to do. An answer ends a wait and leaves the clock of the step stopped."""
    step = state.fold.step
    return state.phase in _AT_REST or (step is not None and step.clock.since is None)


def _waits_for_a_retry(state: AgentState) -> bool:
    wait = state.execution.wait if state.execution is not None else None
    return state.phase is Phase.WAITING and wait is not None and wait.kind in {"retry", "tool_retry"}
