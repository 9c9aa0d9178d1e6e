"""Every field of an event is content or state, and one that is neither cannot be declared."""

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
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.event import EVENT_TYPES, Event, EventKind


class Words(Value, frozen=True, kw_only=True):
    said: str
    language: str

    CONTENT = frozenset({"said"})
    STATE = frozenset({"language"})


def test_the_content_of_events_is_what_was_said_and_what_tools_were_given_and_returned() -> None:
    assert content_of(MessagesAppended) == ("messages",)
    assert set(content_of(ApprovalGranted)) == {"arguments", "reason"}
    assert set(content_of(ToolExecutionFailed)) == {"error.message", "error.causes"}
    assert set(content_of(ToolExecutionSettledLate)) == {"result", "error.message", "error.causes"}


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


@pytest.mark.parametrize("kind", [str, dict[str, int], str | None, tuple[str, ...]])
def test_a_field_that_is_neither_content_nor_state_is_an_error_when_the_event_is_declared(kind: object) -> None:
    with pytest.raises(TypeError, match=r"Undecided\.note is neither content nor state"):

        class Undecided(Event, frozen=True, kw_only=True):  # pyright: ignore[reportUnusedClass]
            TYPE = "test.undecided.v1"
            KIND = EventKind.FACT
            __annotations__ = {"note": kind}

    assert "test.undecided.v1" not in EVENT_TYPES


@pytest.mark.parametrize(
    ("content", "state", "why"),
    [({"text"}, {"text"}, "'text' is said to be both"), ({"text", "txt"}, set[str](), "'txt' is no field of it")],
)
def test_a_field_that_is_both_or_that_there_is_not_is_an_error(content: set[str], state: set[str], why: str) -> None:
    with pytest.raises(TypeError, match=why):

        class Wrong(Event, frozen=True, kw_only=True):  # pyright: ignore[reportUnusedClass]
            TYPE = "test.wrong.v1"
            KIND = EventKind.FACT
            CONTENT = frozenset(content)
            STATE = frozenset(state)
            text: str
