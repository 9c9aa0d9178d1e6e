"""What models call their calls, and what providers take."""

import re
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


@pytest.mark.parametrize(
    ("host", "refused", "taken", "form"),
    [
        ("api.openai.com", "call_1__thought__" + "x" * 200, "x" * 40, r"[0-9a-f]{40}"),
        ("ours.openai.azure.com", "x" * 41, "call_1", r"[0-9a-f]{40}"),
        ("api.mistral.ai", "call_1", "D681PevKs", r"[0-9a-f]{9}"),
    ],
)
def test_an_id_that_a_host_would_refuse_is_another_one_and_always_the_same(
    host: str, refused: str, taken: str, form: str
) -> None:
    ids = CallIds(once_in_all=False, host=host)
    first, other, second = ids.of_call(refused), ids.of_call(taken), ids.of_call(refused)
    assert re.fullmatch(form, first)
    assert re.fullmatch(form, second)
    assert first != second
    assert other == taken
    assert [ids.of_result(call) for call in (refused, taken, refused)] == [first, taken, second]
    assert CallIds(once_in_all=True, host=host).of_call(refused) == first


def test_a_server_gets_its_own_ids_back_however_long_and_openai_gets_short_ones() -> None:
    call = ToolCallPart(id="call_1__thought__" + "x" * 200, name="look", arguments={})
    messages = [Message.user("?"), Message.assistant(tool_calls=(call,)), Message.tool(call.id, "look", "seen")]
    for host, most in (("127.0.0.1", len(call.id)), ("api.openai.com", 40)):
        asked, answered = list(chat_rendering.render_messages(messages, f"openai@{host}"))[1:]
        (chat,) = [entry["id"] for entry in objects(asked) if "function" in entry]
        asked, answer = list(responses_rendering.render_items(messages, f"openai-responses@{host}"))[1:]
        assert objects(answered)[0]["tool_call_id"] == chat == objects(asked)[0]["call_id"]
        assert objects(answer)[0]["call_id"] == chat
        assert len(str(chat)) == most


def test_a_name_is_made_one_that_a_tool_can_have() -> None:
    assert call_name("multi_tool_use.parallel") == "multi_tool_use_parallel"
    assert call_name("sök order") == "s_k_order"
    assert call_name("x" * 100) == "x" * 64
    assert call_name("look-up_2") == "look-up_2"
