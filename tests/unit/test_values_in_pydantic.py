"""A service holds our values in models of its own: read and written in their stored form, with a schema."""

import json

import pytest
from pydantic import BaseModel, ValidationError

from steptrail import Limits, Message
from steptrail.domain.agent.events import ExecutionFinished
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.shared.run import ExecutionStatus, StopReason

SAID = (Message.user("Hello"), Message.assistant("", tool_calls=(ToolCallPart(id="c", name="look", arguments={}),)))


class Body(BaseModel):
    messages: tuple[Message, ...]
    limits: Limits | None = None


class Notice(BaseModel):
    event: ExecutionFinished


def test_a_model_holds_values_and_comes_back_from_its_json() -> None:
    body = Body(messages=SAID, limits=Limits(max_steps=3))
    assert Body.model_validate_json(body.model_dump_json()) == body
    assert Body.model_validate(body.model_dump()) == body


def test_an_event_is_written_as_it_is_stored() -> None:
    ended = ExecutionFinished(
        status=ExecutionStatus.COMPLETED, stop_reason=StopReason.COMPLETED, resolved_by="AnswerComplete"
    )
    assert json.loads(Notice(event=ended).model_dump_json())["event"] == {
        "status": "completed",
        "stop_reason": "completed",
        "resolved_by": "AnswerComplete",
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"role": "nobody"}, "role: Invalid enum value 'nobody'"),
        ({"role": "user", "parts": [{"kind": "text"}]}, r"parts\[0\]\.text: It is missing"),
        ({"role": "user", "mood": "fine"}, "mood: There is no such field"),
        (7, "Expected `object`, got `int`"),
    ],
)
def test_what_is_no_value_is_refused_with_its_place(given: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as refused:
        Body.model_validate({"messages": [given]})
    assert refused.value.errors()[0]["loc"] == ("messages", 0)


def test_the_schema_tells_of_everything_inside() -> None:
    schema = json.dumps(Body.model_json_schema())
    assert all(f'"{name}"' in schema for name in ("role", "arguments", "tool_result", "max_steps"))
    assert "$ref" not in schema
