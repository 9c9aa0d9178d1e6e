"""What a driver says to a provider's cache of prompts: marks in bodies of Messages, a key for OpenAI."""

import json
from typing import Any, cast

import httpx2
import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole, ToolCallPart, ToolResultPart
from steptrail.domain.tools import ToolSpec
from steptrail.errors import ConfigurationError
from steptrail.infrastructure.models.anthropic_rendering import render_request
from steptrail.infrastructure.models.chat_rendering import render_request as render_chat
from steptrail.infrastructure.models.prompt_cache import CacheTime, cache_key
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.models import AnthropicModel, OpenAIModel, OpenAIResponsesModel
from steptrail.testing.model_request_anthropic import why_refused
from steptrail.testing.model_request_types import why_mistyped

TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
CALL = ToolCallPart(id="1", name="look", arguments={})
OPENING = (Message.system("Be kind."), Message.user("1+1?"), Message.assistant("2"))
SAID = (
    Message.system("It is Monday."),
    Message.user("go"),
    Message(role=MessageRole.ASSISTANT, parts=(CALL,)),
    Message(role=MessageRole.TOOL, parts=(ToolResultPart(call_id="1", name="look", text="tea"),)),
)
TAIL = (Message.user("<instructions>Come to an end.</instructions>"),)


def request(*messages: Message, opening: int = len(OPENING), tail: int = len(TAIL)) -> ModelRequest:
    return ModelRequest(messages=messages or (*OPENING, *SAID, *TAIL), tools=(TOOL,), opening=opening, tail=tail)


def body_of(asked: ModelRequest, cache: CacheTime | None = "auto", **parameters: JsonValue) -> dict[str, JsonValue]:
    return render_request("m", asked, {"max_tokens": 9, **parameters}, cache=cache)


def marked(body: dict[str, JsonValue]) -> list[JsonValue]:
    """Return the texts, or the kinds, of the blocks that are marked, in the order of the wire."""
    blocks = [*as_list(body.get("tools")), *as_list(body.get("system"))]
    for turn in as_list(body["messages"]):
        blocks += as_list(as_object(turn)["content"])
    found = [as_object(block) for block in blocks if "cache_control" in as_object(block)]
    return [block.get("text") or block.get("name") or block["type"] for block in found]


def test_marks_stand_behind_what_stays_and_in_front_of_the_tail() -> None:
    body = body_of(request())
    assert marked(body) == ["Be kind.", "2", "go", "tool_result"]
    assert why_refused(body) is None
    assert why_mistyped("/v1/messages", body) is None


def test_without_a_prompt_the_last_tool_is_marked_and_without_a_tail_the_last_word() -> None:
    assert marked(body_of(request(Message.user("go"), opening=0, tail=0))) == ["look", "go"]


def test_the_cache_is_asked_to_last_an_hour_and_not_asked_at_all() -> None:
    hour = as_object(as_list(body_of(request(), "1h")["system"])[0])
    assert hour["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marked(body_of(request(), None)) == []


def test_a_mark_of_the_parameters_stands_in_the_place_of_ours() -> None:
    body = body_of(request(), cache_control={"type": "ephemeral"})
    assert marked(body) == []


def test_a_stored_message_is_not_changed_by_a_mark() -> None:
    asked = request()
    before = repr(asked)
    body_of(asked)
    assert repr(asked) == before


def test_the_key_is_that_of_what_all_calls_of_an_agent_begin_with() -> None:
    assert cache_key(request()) == cache_key(request(*OPENING, Message.user("else"), tail=0))
    assert cache_key(request()) != cache_key(request(Message.system("Be short."), *OPENING[1:], *SAID))
    assert cache_key(request()) != cache_key(ModelRequest(messages=(*OPENING, *SAID), opening=len(OPENING)))


@pytest.mark.parametrize(
    ("host", "settings", "sent"),
    [
        ("api.openai.com", {}, cache_key(request())),
        ("eu.api.openai.com", {}, cache_key(request())),
        ("api.openai.com", {"cache": None}, None),
        ("api.openai.com", {"parameters": {"prompt_cache_key": "mine"}}, "mine"),
        ("notapi.openai.com.example", {}, None),
        ("127.0.0.1", {}, None),
    ],
)
@pytest.mark.parametrize("driver", [OpenAIModel, OpenAIResponsesModel])
async def test_openai_is_told_the_key_and_no_other_server(
    driver: type[OpenAIModel | OpenAIResponsesModel], host: str, settings: dict[str, Any], sent: str | None
) -> None:
    from openai import AsyncOpenAI

    bodies = list[dict[str, JsonValue]]()

    def answer(posted: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(posted.content))
        told: JsonValue = {"type": "message", "content": [{"type": "output_text", "text": "Tea."}]}
        choice: JsonValue = {"message": {"content": "Tea."}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"status": "completed", "output": [told], "choices": [choice]})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = AsyncOpenAI(api_key="k", base_url=f"https://{host}/v1", http_client=http)
    await driver("m", client=client, **settings).infer(request())
    assert bodies[0].get("prompt_cache_key") == sent


@pytest.mark.parametrize(
    ("driver", "cache", "known"),
    [(OpenAIModel, "1h", "'auto' or None"), (AnthropicModel, "5m", "'auto', '1h' or None"), (OpenAIModel, 7, "'auto'")],
)
def test_another_cache_is_refused(driver: type[OpenAIModel | AnthropicModel], cache: object, known: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the cache of {driver.__name__} is one of {known}"):
        driver("m", cache=cast("CacheTime", cache))


def test_what_is_asked_of_a_cache_is_no_part_of_an_agent() -> None:
    assert AnthropicModel("m", cache=None).describe() == AnthropicModel("m", cache="1h").describe()


def test_the_system_speaks_once_at_the_head_of_chat_completions() -> None:
    body = render_chat("m", request(OPENING[0], *SAID[:2]), {})
    assert as_list(body["messages"])[:1] == [{"role": "system", "content": "Be kind.\n\nIt is Monday."}]
    assert len(as_list(body["messages"])) == 2
