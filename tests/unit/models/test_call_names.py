"""What models call their calls, and what providers take."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.infrastructure.models import anthropic_rendering, chat_rendering, responses_rendering
from steptrail.infrastructure.models.call_names import CallIds, call_name

ONE, OTHER = ToolCallPart(id="c", name="look", arguments={}), ToolCallPart(id="c_2", name="look", arguments={})
TURN = [
    Message.assistant(tool_calls=(ONE, ONE, OTHER)),
    Message.tool("c", "look", "first"),
    Message.tool("c", "look", "second"),
    Message.tool("c_2", "look", "third"),
]

Render = Callable[[str, ModelRequest, Mapping[str, JsonValue]], dict[str, JsonValue]]


@pytest.mark.parametrize(
    ("render", "asked", "answered", "text"),
    [
        (chat_rendering.render_request, "id", "tool_call_id", "content"),
        (responses_rendering.render_request, "call_id", "call_id", "output"),
        (anthropic_rendering.render_request, "id", "tool_use_id", "content"),
    ],
)
def test_each_result_goes_to_the_call_that_it_is_of(render: Render, asked: str, answered: str, text: str) -> None:
    body = render("m", ModelRequest(messages=[Message.user("?"), *TURN, *TURN]), {})
    entries = list(objects(body.get("messages") or body.get("input")))
    calls = [str(entry[asked]) for entry in entries if entry.get("type") in {"function", "function_call", "tool_use"}]
    results = [
        (str(entry[answered]), entry[text]) for entry in entries if entry.get(text) in ["first", "second", "third"]
    ]
    assert results == list(zip(calls, ["first", "second", "third"] * 2, strict=True))
    assert len(set(calls[:3])) == len(set(calls[3:])) == 3


def objects(value: JsonValue) -> Sequence[Mapping[str, JsonValue]]:
    """Return every object in a value, the outer ones first."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(found for each in inner for found in objects(each))]


def test_an_id_that_is_used_once_stays_as_it_came() -> None:
    ids = CallIds(once_in_all=True)
    assert [ids.of_call("a"), ids.of_call("b"), ids.of_result("b"), ids.of_result("a")] == ["a", "b", "b", "a"]


@pytest.mark.parametrize(("once_in_all", "again"), [(True, "a_2"), (False, "a")])
def test_the_id_of_an_earlier_reply_is_free_again_where_the_protocol_wants_it_so(once_in_all: bool, again: str) -> None:
    ids = CallIds(once_in_all=once_in_all)
    ids.of_call("a")
    ids.next_reply()
    assert (ids.of_call("a"), ids.of_result("a")) == (again, again)


def test_a_name_is_made_one_that_a_tool_can_have() -> None:
    assert call_name("multi_tool_use.parallel") == "multi_tool_use_parallel"
    assert call_name("sök order") == "s_k_order"
    assert call_name("x" * 100) == "x" * 64
    assert call_name("look-up_2") == "look-up_2"
