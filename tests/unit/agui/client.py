"""The other side of AG-UI for tests: it checks the order of events, and makes messages of them as a front end does."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter

_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


class ProtocolBroken(AssertionError):
    """An event came that must not come there."""


@dataclass
class Client:
    """What a front end holds. Give it the events of one run after the other."""

    messages: list[Message] = field(default_factory=list[Message])
    state: Any = None
    seen: list[Event] = field(default_factory=list[Event])
    thoughts: dict[str, str] = field(default_factory=dict[str, str])
    """What the model thought, by the ids of the messages, which no snapshot takes away."""
    _open: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _subagents: set[str] = field(default_factory=set[str])
    _runs: bool = False

    def take_all(self, events: Iterable[Event]) -> "Client":
        for event in events:
            self.take(event)
        return self

    def run_is_over(self) -> bool:
        return bool(self.seen) and not self._runs

    @property
    def said(self) -> list[dict[str, Any]]:
        """The messages as JSON; answers to the calls of one reply in one order, whichever came first."""
        found: list[dict[str, Any]] = []
        for message in self.messages:
            shown = message.model_dump(mode="json", by_alias=True)
            place = len(found)
            while (
                message.role == "tool"
                and place
                and found[place - 1]["role"] == "tool"
                and shown["id"] < found[place - 1]["id"]
            ):
                place -= 1
            found.insert(place, shown)
        return found

    def take(self, event: Event) -> None:
        assert _EVENTS.validate_json(event.model_dump_json(by_alias=True)) == event
        self.seen.append(event)
        if isinstance(event, RunStartedEvent):
            self._need(not self._runs, event)
            self._runs, self._subagents = True, set()
            return
        self._need(self._runs, event)
        match event:
            case RunFinishedEvent():
                self._need(not self._open, event)
                if isinstance(event.outcome, RunFinishedInterruptOutcome):
                    kinds = [type(each) for each in self.seen[-3:-1]]
                    self._need(kinds == [StateSnapshotEvent, MessagesSnapshotEvent], event)
                self._runs = False
            case RunErrorEvent():
                self._runs = False
                self._open.clear()
            case StepStartedEvent():
                self._begin("step", event.step_name, event)
            case StepFinishedEvent():
                self._end("step", event.step_name, event)
            case SubagentStartedEvent():
                self._need(event.subagent_run_id not in self._subagents, event)
                self._subagents.add(event.subagent_run_id)
                self._begin("subagent", event.subagent_run_id, event)
            case SubagentFinishedEvent() | SubagentErrorEvent():
                self._end("subagent", event.subagent_run_id, event)
            case ReasoningStartEvent():
                self._begin("span", event.message_id, event)
            case ReasoningEndEvent():
                self._end("span", event.message_id, event)
            case ReasoningMessageStartEvent():
                self._need(("span", event.message_id) in self._open, event)
                self._begin("reasoning", event.message_id, event)
                self.thoughts.setdefault(event.message_id, "")
            case ReasoningMessageContentEvent():
                self._need(("reasoning", event.message_id) in self._open, event)
                self.thoughts[event.message_id] += event.delta
            case ReasoningMessageEndEvent():
                self._end("reasoning", event.message_id, event)
            case StateSnapshotEvent():
                self.state = event.snapshot
            case MessagesSnapshotEvent():
                self._merge(event.messages)
            case TextMessageStartEvent():
                self._begin("text", event.message_id, event)
                # A front end would add to what it has under this id, and show a text twice.
                self._need(self._find(event.message_id) is None, event)
                self.messages.append(
                    UserMessage(id=event.message_id, content="")
                    if event.role == "user"
                    else AssistantMessage(id=event.message_id, content="")
                )
            case TextMessageContentEvent():
                self._need(("text", event.message_id) in self._open, event)
                message = self._find(event.message_id)
                assert isinstance(message, AssistantMessage | UserMessage)
                assert isinstance(message.content, str)
                message.content += event.delta
            case TextMessageEndEvent():
                self._end("text", event.message_id, event)
            case ToolCallStartEvent():
                self._need(event.tool_call_id not in self._call_ids(), event)
                self._begin("call", event.tool_call_id, event)
                self._call_begun(event)
            case ToolCallArgsEvent():
                self._need(("call", event.tool_call_id) in self._open, event)
                self._call(event.tool_call_id).function.arguments += event.delta
            case ToolCallEndEvent():
                self._end("call", event.tool_call_id, event)
            case ToolCallResultEvent():
                self._answered(event)
            case _:
                pass

    def _call_begun(self, event: ToolCallStartEvent) -> None:
        call = ToolCall(id=event.tool_call_id, function=FunctionCall(name=event.tool_call_name, arguments=""))
        owner = self._find(event.parent_message_id or "")
        if owner is None:
            owner = AssistantMessage(id=event.parent_message_id or event.tool_call_id)
            self.messages.append(owner)
        assert isinstance(owner, AssistantMessage)
        owner.tool_calls = [*(owner.tool_calls or ()), call]

    def _answered(self, event: ToolCallResultEvent) -> None:
        answered = {message.tool_call_id for message in self.messages if isinstance(message, ToolMessage)}
        self._need(event.tool_call_id in self._call_ids() - answered, event)
        self._need(self._find(event.message_id) is None, event)
        answer = ToolMessage(id=event.message_id, content=event.content, tool_call_id=event.tool_call_id)
        for place, message in enumerate(self.messages):
            if isinstance(message, AssistantMessage) and any(
                call.id == event.tool_call_id for call in message.tool_calls or ()
            ):
                behind = place + 1
                while behind < len(self.messages) and self.messages[behind].role == "tool":
                    behind += 1
                self.messages.insert(behind, answer)
                return

    def _merge(self, snapshot: list[Message]) -> None:
        assert len({message.id for message in snapshot}) == len(snapshot)
        new = {message.id: message.model_copy(deep=True) for message in snapshot}
        kept = [new[message.id] for message in self.messages if message.id in new]
        here = {message.id for message in kept}
        self.messages = [*kept, *(message for message_id, message in new.items() if message_id not in here)]

    def _call_ids(self) -> set[str]:
        calls = [m.tool_calls or () for m in self.messages if isinstance(m, AssistantMessage)]
        return {call.id for each in calls for call in each}

    def _call(self, call_id: str) -> ToolCall:
        calls = [m.tool_calls or () for m in self.messages if isinstance(m, AssistantMessage)]
        (found,) = [call for each in calls for call in each if call.id == call_id]
        return found

    def _find(self, message_id: str) -> Message | None:
        return next((message for message in self.messages if message.id == message_id), None)

    def _begin(self, kind: str, name: str, event: Event) -> None:
        self._need((kind, name) not in self._open, event)
        self._open.add((kind, name))

    def _end(self, kind: str, name: str, event: Event) -> None:
        self._need((kind, name) in self._open, event)
        self._open.discard((kind, name))

    def _need(self, holds: bool, event: Event) -> None:
        if not holds:
            raise ProtocolBroken(f"{event!r} after {[each.type.value for each in self.seen[:-1]]}")
