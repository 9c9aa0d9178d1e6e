"""From a session's events and live updates to the events of AG-UI: a pure fold, one for each run of a front end.

What is told of a message is what `conversation` makes of it, whole or piece by piece, so a client that follows ends
with the same messages as one that loads the session. Text of a reply that broke off is taken back with a snapshot.
"""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

from steptrail.domain.agent.events import (
    AgentEvent,
    InferenceCompleted,
    MetadataChanged,
    StepCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, ReplyDelta, UpdatesLost
from steptrail.domain.messages import Message, ReasoningPart
from steptrail.interfaces.http.agui.config import AguiConfig, require_agui
from steptrail.interfaces.http.agui.conversation import (
    Conversation,
    has_ended,
    ids_kept,
    is_of_our_form,
    wire_messages,
)
from steptrail.interfaces.http.agui.ending import ending, questions
from steptrail.interfaces.http.agui.reply import ReplyShown
from steptrail.interfaces.http.agui.subagents import SubagentsShown
from steptrail.projections.lifecycle import LifecycleFold, RunEvent
from steptrail.projections.lifecycle.base import error_text
from steptrail.projections.lifecycle.executions import AgentExecutionFailed
from steptrail.projections.lifecycle.steps import (
    AgentStepCompleted,
    AgentStepStarted,
    DecisionTaken,
    InferenceRequestFailed,
)
from steptrail.projections.lifecycle.tools import SubagentSpawning
from steptrail.projections.ui.ids import reply_id

if TYPE_CHECKING:
    from ag_ui.core import AssistantMessage, Event, Message as WireMessage, ToolMessage

CONTINUATION = "steptrail.continuation"
"""The name of the custom event that tells of a decision."""
_STANDARD = AguiConfig()
_MAY_CHANGE_WHAT_IS_SHOWN = (MetadataChanged, StepCompleted)


class AguiFold:
    """Tells one run of a front end, which begins where the session is `state`: `begin`, `apply` and `show`, `finish`.

    `run_id` is the id that the client chose, the execution's by default, and `thread_id` that of its thread, by default
    the session's. `client` are the messages that the client
    holds already: they keep their ids. `protocol_version` is the version that the client names: without one, events
    that clients from before 1.0 refuse are left out. Usage is counted from `since`, by default from `state`. Raises
    `MissingExtra` without the package `ag-ui-protocol`.
    """

    def __init__(
        self,
        state: AgentState,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        config: AguiConfig = _STANDARD,
        client: "Sequence[WireMessage]" = (),
        protocol_version: str | None = None,
        since: AgentState | None = None,
    ) -> None:
        require_agui("AG-UI")
        self._life, self._config = LifecycleFold(state), config
        self._since = since if since is not None else state
        self._run_id, self._client, self._protocol_version = run_id, client, protocol_version
        self._thread_id = thread_id or state.agent_id
        self._told: Conversation
        self._count, self._queued, self._answered = 0, 0, set[int]()
        self._calls: list[ToolExecution] = []
        self._reply: ReplyShown | None = None
        self._steps: list[str] = []
        self._subagents = SubagentsShown()
        self._shown_state: JsonValue = None
        self._error: str | None = None
        self._has_begun = False
        of_open = f"{reply_id(state.execution_id or '', state.open_step or 0)}:"
        self._thoughts_held = {
            each.id: each.content for each in client if each.role == "reasoning" and each.id.startswith(of_open)
        }
        self._messages: Sequence[WireMessage] = self._look()
        self._ids = ids_kept(self._messages, client, state.agent_id)

    @property
    def state(self) -> AgentState:
        """The session after the newest event that was applied."""
        return self._life.state

    @property
    def run_id(self) -> str:
        """The run's id on the wire."""
        return self._run_id or self.state.execution_id or self.state.agent_id

    def begin(self, *, joins: bool) -> "list[Event]":
        """Return how the run begins. One that `joins` a session with a past shows that first.

        So does one whose client has messages of an erased session of that name: what is said now may need their ids.
        """
        # Whoever follows for hours does not hold the whole conversation twice more.
        messages, client, self._messages, self._client = self._messages, self._client, (), ()
        events = self._run_started()
        if joins or any(is_of_our_form(self.state.agent_id, message.id) for message in client):
            events += self._state_shown(always=True)
            ours = [self._ids.get(message.id, message.id) for message in messages]
            here = [message.id for message in client]
            known, shown = set(ours), set(here)
            merged = [each for each in here if each in known] + [each for each in ours if each not in shown]
            if merged != ours:
                events += self._snapshot(())  # a client leaves what it knows in its place, and would mix the order up
            events += self._snapshot(messages)
        else:
            events += self._state_shown(always=False)
        if self.state.open_step is not None:
            events += self._step_started(self.state.open_step)
        self._has_begun = True
        return events

    def apply(self, record: Recorded[AgentEvent]) -> "list[Event]":
        """Return what the next event of the session means to a front end."""
        lifecycle = self._life.apply(record)
        events: list[Event] = []
        if any(isinstance(each, InferenceRequestFailed) for each in lifecycle):
            events += self._taken_back()
        events += self._caught_up()
        if isinstance(record.event, InferenceCompleted):
            events += self._taken_back()  # only where nothing was stored of it: what is stored ends what was shown
        for each in lifecycle:
            events += self._meant(each, record.event)
        if isinstance(record.event, _MAY_CHANGE_WHAT_IS_SHOWN):
            events += self._state_shown(always=False)
        return events

    def show(self, update: LiveUpdate | UpdatesLost) -> "list[Event]":
        """Return the events of a live update. One that comes late or early has none."""
        state = self.state
        if isinstance(update, UpdatesLost):
            if state.phase is Phase.INFERRING:
                self._current_reply().lost()
            return []
        if not isinstance(update, ReplyDelta) or state.phase is not Phase.INFERRING:
            return []
        step = state.fold.step
        asked = (state.execution_id, state.open_step, step.inference_attempt if step is not None else None)
        if asked != (update.execution_id, update.step, update.attempt):
            return []
        return self._current_reply().written(update.kind, update.text)

    def finish(self) -> "list[Event]":
        """Return the events that end the run where the session stands now. No event may follow them."""
        is_asking = bool(questions(self.state))
        events = [*self._at_rest(), *self._state_shown(always=is_asking)]
        if is_asking:
            events += self._snapshot(self._look())
        last = ending(
            self.state,
            run_id=self.run_id,
            thread_id=self._thread_id,
            since=self._since,
            error=self._error,
            call_id=self._told.call_id,
            protocol_version=self._protocol_version,
            config=self._config,
        )
        return [*events, last]

    def fail(self, message: str, code: str) -> "list[Event]":
        """Return how the run ends when the session can be followed no further, or could not be shown from the first."""
        from ag_ui.core import RunErrorEvent

        begun = [] if self._has_begun else self._run_started()
        return [*begun, *self._at_rest(), RunErrorEvent(message=message, code=code)]

    def _run_started(self) -> "list[Event]":
        from ag_ui.core import RunStartedEvent

        return [RunStartedEvent(thread_id=self._thread_id, run_id=self.run_id)]

    def _at_rest(self) -> "list[Event]":
        """Close what is open, and tell what waits for the end of the step to join the conversation."""
        events = [*self._taken_back(), *self._subagents.suspended(), *self._steps_finished()]
        if (step := self.state.fold.step) is not None:
            for each in zip(step.queued[self._queued :], step.queued_origins[self._queued :], strict=True):
                events += _spoken(self._told.message(*each))
            self._queued = len(step.queued)
        return events

    def _meant(self, event: RunEvent, stored: AgentEvent) -> "list[Event]":
        from ag_ui.core import CustomEvent

        match event:
            case AgentStepStarted(step=step):
                return self._step_started(step)
            case AgentStepCompleted():
                return self._steps_finished()
            case DecisionTaken():
                return [CustomEvent(name=CONTINUATION, value=event.to_dict())]
            case SubagentSpawning() if isinstance(stored, ToolExecutionStarted):
                return self._subagents.spawned(event, stored.position, self._told.call_id(stored.position))
            case AgentExecutionFailed(error=error, error_type=error_type) if self._config.include_errors:
                self._error = error_text(error, error_type)
            case _:
                pass
        return []

    def _caught_up(self) -> "list[Event]":
        """Tell what has been added to the conversation since, and which calls have ended."""
        state, events = self.state, list["Event"]()
        for message, origin in zip(state.messages[self._count :], state.message_origins[self._count :], strict=True):
            if origin.step is not None and origin.position is None:
                events += self._replied(message, origin)
            elif origin.step is not None and origin.position is not None:
                if origin.position not in self._answered:
                    events += self._call_ended(origin.position, message, origin)
            elif origin.output:
                continue
            elif self._queued:
                self._queued -= 1  # it was in a snapshot while its step was open
            else:
                events += _spoken(self._told.message(message, origin))
        self._count = len(state.messages)
        step = state.fold.step
        if step is None:
            self._answered.clear()
            return events
        # Of the thousands of calls that a reply may ask for, an event changes few.
        for call, before in zip(step.calls, chain(self._calls, repeat(None)), strict=False):
            if call is not before and call.position not in self._answered and has_ended(call):
                origin = origin_of_call(call, at=state.as_of, execution=state.fold.executions, step=step.number)
                events += self._call_ended(call.position, call.message(), origin)
        self._calls = [*step.calls]
        return events

    def _replied(self, message: Message, origin: MessageOrigin) -> "list[Event]":
        wire = self._told.message(message, origin)
        shown, self._reply = self._current_reply(origin.step), None
        thought = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
        events = shown.stored(message.text, thought)
        if events is None:
            # Something else was stored than was shown: the snapshot corrects it, and holds the calls too.
            return [*shown.closed(), *self._snapshot(self._look(self._queued))]
        return [*events, *(_asked(wire) if wire is not None and wire.role == "assistant" else ())]

    def _call_ended(self, position: int, message: Message, origin: MessageOrigin) -> "list[Event]":
        self._answered.add(position)
        return [_result(self._told.answer(message, origin)), *self._subagents.ended(position, origin)]

    def _current_reply(self, step: int | None = None) -> ReplyShown:
        if self._reply is None:
            number = step if step is not None else self.state.open_step or 0
            shown_as, asking = reply_id(self.state.execution_id or "", number), self.state.fold.step
            self._reply = ReplyShown(
                shown_as,
                reasoning=self._config.include_reasoning,
                attempt=asking.inference_attempt if asking is not None else 1,
                held=self._thoughts_held,
            )
        return self._reply

    def _taken_back(self) -> "list[Event]":
        """Close the reply that broke off, if some of it was shown, and take its text back."""
        shown, self._reply = self._reply, None
        if shown is None:
            return []
        return [*shown.closed(), *(self._snapshot(self._look(self._queued)) if shown.has_text else ())]

    def _look(self, queued: int | None = None) -> "list[WireMessage]":
        """Return the conversation with the first `queued` messages that wait for the step, and count it as told."""
        messages, self._told = wire_messages(self.state, self._config, queued=queued)
        step = self.state.fold.step
        self._count, self._queued = len(self.state.messages), len(step.queued[:queued]) if step is not None else 0
        self._answered = {call.position for call in step.calls if has_ended(call)} if step is not None else set[int]()
        return messages

    def _snapshot(self, messages: "Sequence[WireMessage]") -> "list[Event]":
        from ag_ui.core import MessagesSnapshotEvent

        known = [
            message.model_copy(update={"id": self._ids[message.id]}) if message.id in self._ids else message
            for message in messages
        ]
        return [MessagesSnapshotEvent(messages=known)]

    def _state_shown(self, *, always: bool) -> "list[Event]":
        from ag_ui.core import StateSnapshotEvent

        shown = self._config.state(self.state)
        if not always and shown == (self._shown_state or {}):
            return []
        self._shown_state = shown
        return [StateSnapshotEvent(snapshot=shown)]

    def _step_started(self, step: int) -> "list[Event]":
        from ag_ui.core import StepStartedEvent

        self._steps.append(f"step {step}")
        return [StepStartedEvent(step_name=self._steps[-1])]

    def _steps_finished(self) -> "list[Event]":
        from ag_ui.core import StepFinishedEvent

        steps, self._steps = self._steps, []
        return [StepFinishedEvent(step_name=step) for step in steps]


def _asked(message: "AssistantMessage") -> "list[Event]":
    from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent

    events: list[Event] = []
    for call in message.tool_calls or ():
        name, arguments = call.function.name, call.function.arguments
        events.append(ToolCallStartEvent(tool_call_id=call.id, tool_call_name=name, parent_message_id=message.id))
        if arguments:
            events.append(ToolCallArgsEvent(tool_call_id=call.id, delta=arguments))
        events.append(ToolCallEndEvent(tool_call_id=call.id))
    return events


def _result(message: "ToolMessage") -> "Event":
    from ag_ui.core import ToolCallResultEvent

    return ToolCallResultEvent(
        message_id=message.id, tool_call_id=message.tool_call_id, content=message.content, role="tool"
    )


def _spoken(message: "WireMessage | None") -> "list[Event]":
    """Tell a message that comes whole: of a person, a hook, another front end."""
    from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

    if message is None:
        return []
    if message.role == "tool":
        return [_result(message)]
    if message.role != "user" and message.role != "assistant":
        return []
    events: list[Event] = []
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content or () if part.type == "text")
    if text:
        events.append(TextMessageStartEvent(message_id=message.id, role=message.role))
        events.append(TextMessageContentEvent(message_id=message.id, delta=text))
        events.append(TextMessageEndEvent(message_id=message.id))
    return [*events, *(_asked(message) if message.role == "assistant" else ())]
