"""Every field of an event is content or state, and an event with one that is neither cannot be stored."""

from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalGranted,
    InferenceCompleted,
    MessagesAppended,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
)
from steptrail.domain.base import Value
from steptrail.domain.content import content_of
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.event import EVENT_TYPES, Event


class Words(Value, frozen=True, kw_only=True):
    said: str
    language: str

    CONTENT = frozenset({"said"})
    STATE = frozenset({"language"})


def test_the_content_of_events_is_what_was_said_and_what_tools_were_given_and_returned() -> None:
    assert content_of(MessagesAppended) == ("messages",)
    assert set(content_of(ApprovalGranted)) == {"arguments", "reason"}
    assert set(content_of(ToolExecutionFailed)) == {"error.message", "error.causes", "settled_reason"}
    in_late_ones = {"result", "error.message", "error.causes", "files.digest", "files.filename"}
    assert set(content_of(ToolExecutionSettledLate)) == in_late_ones


def test_the_name_of_a_call_is_state_and_its_arguments_are_content() -> None:
    paths = content_of(InferenceCompleted)
    assert {"reply.parts.text", "reply.parts.arguments", "reply.parts.raw"} <= set(paths)
    assert not {"reply.parts", "reply.parts.name", "reply.parts.id", "reply.usage"} & set(paths)


def test_no_event_keeps_a_message_or_json_of_a_tool_as_state() -> None:
    for event in get_args(AgentEvent):
        kept = {field.name: str(field.type) for field in structs.fields(event) if field.name in event.STATE}
        assert [name for name, shown in kept.items() if "Message" in shown or name in {"arguments", "result"}] == []


def test_numbers_members_and_truth_values_are_state_by_their_type() -> None:
    class Counted(Value, frozen=True, kw_only=True):
        number: int
        share: float | None
        is_done: bool
        reason: FinishReason
        numbers: tuple[int, ...]

    assert content_of(Counted) == ()


def test_content_inside_of_optional_and_repeated_values_is_found_once() -> None:
    class Talk(Value, frozen=True, kw_only=True):
        first: Words | None
        rest: tuple[Words, ...]

    assert content_of(Talk) == ("first.said", "rest.said")


@pytest.mark.parametrize("event", EVENT_TYPES.values(), ids=EVENT_TYPES.keys())
def test_every_field_of_every_event_is_content_or_state(event: type[Event]) -> None:
    assert set(get_args(AgentEvent)) | set(get_args(FlowEvent)) <= set(EVENT_TYPES.values())
    assert set(content_of(event)) >= event.CONTENT


@pytest.mark.parametrize("kind", [str, dict[str, int], str | None, tuple[str, ...]])
def test_an_event_with_a_field_that_is_neither_content_nor_state_is_not_stored(kind: object) -> None:
    class Undecided(Value, frozen=True, kw_only=True):
        __annotations__ = {"note": kind}

    with pytest.raises(TypeError, match=r"Undecided\.note is neither content nor state"):
        content_of(Undecided)


@pytest.mark.parametrize(
    ("content", "state", "why"),
    [({"text"}, {"text"}, "'text' is said to be both"), ({"text", "txt"}, set[str](), "'txt' is no field of it")],
)
def test_a_field_that_is_both_or_that_there_is_not_is_an_error(content: set[str], state: set[str], why: str) -> None:
    class Wrong(Value, frozen=True, kw_only=True):
        CONTENT = frozenset(content)
        STATE = frozenset(state)
        text: str

    with pytest.raises(TypeError, match=why):
        content_of(Wrong)
