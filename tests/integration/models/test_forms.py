"""What compatible servers and beta features send and want back, over real HTTP to a server that refuses all else.

The forms are those of public documents, named in each test.
"""

import json
from collections.abc import Sequence

import pytest

from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import CitationPart, Message, MessageRole, ProviderPart, ReasoningPart, ToolCallPart
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.testing.model_contract import LOOKUP, lookup_request, streamed
from steptrail.testing.model_script import ScriptedReply, answer, json_body, sse_body, tool_calls
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import driver_of

ASK = ("lookup", {"order": "C3"})
SEARCH: JsonValue = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "C3"}}
ECHO: JsonValue = {
    "type": "mcp_tool_use",
    "id": "mcptoolu_1",
    "name": "echo",
    "server_name": "echo",
    "input": {"message": {"deep": [1, 2]}},
}
EMPTY: JsonValue = {"type": "mcp_tool_use", "id": "mcptoolu_2", "name": "now", "server_name": "clock", "input": {}}
COMPACTED: JsonValue = {"type": "compaction", "content": "They asked for C3.", "encrypted_content": "EpAB=="}
UNKNOWN: JsonValue = {"type": "something_new", "id": "new_1", "payload": {"deep": [None, 1.5]}}
SHELL: JsonValue = {"type": "shell_call", "id": "sh_1", "status": "in_progress", "action": {"commands": ["ls"]}}


@pytest.fixture
def server(typed_server: ModelServer) -> ModelServer:
    return typed_server


async def spoken(
    protocol: str, server: ModelServer, script: Sequence[ScriptedReply], *, stream: bool
) -> tuple[list[ModelReply], list[list[str]]]:
    """Answer each call of each reply of a script, and return the replies and the pieces of text that were shown."""

    server.play(script)
    driver = driver_of(protocol, server)
    messages, replies, shown = list(lookup_request().messages), list[ModelReply](), list[list[str]]()
    try:
        for _ in script:
            request = ModelRequest(messages=messages, tools=[LOOKUP])
            deltas, reply = await streamed(driver, request) if stream else ([], await driver.infer(request))
            shown.append([delta.text for delta in deltas if delta.kind == "text"])
            replies.append(reply)
            messages.append(Message(role=MessageRole.ASSISTANT, parts=reply.parts))
            messages += [Message.tool(call.id, call.name, "paid") for call in reply.tool_calls]
            messages += [] if reply.tool_calls else [Message.user("And then?")]
    finally:
        await driver.close()
    return replies, shown


async def alike(protocol: str, server: ModelServer, *script: ScriptedReply) -> list[ModelReply]:
    """Return the replies of a script, having made sure that each is the same streamed, and shown word by word."""
    whole, _ = await spoken(protocol, server, script, stream=False)
    pieces, shown = await spoken(protocol, server, script, stream=True)
    assert pieces == whole
    assert ["".join(each) for each in shown] == [reply.text for reply in whole]
    return whole


async def test_thinking_in_a_list_of_chunks_is_reasoning_and_the_text_after_it_is_whole(server: ModelServer) -> None:
    """Mistral's documents, "Reasoning": `content` is a list of `thinking` and `text`; streamed, text may follow it."""
    (reply, _) = await alike(
        "chat",
        server,
        answer("144 is the answer.", reasoning="12 times 12 is 144.", chunked=True),
        answer("Nothing."),
    )
    assert reply.text == "144 is the answer."
    assert [part.text for part in reply.parts if isinstance(part, ReasoningPart)] == ["12 times 12 is 144."]


async def test_a_list_of_chunks_comes_back_beside_calls(server: ModelServer) -> None:
    asked, answered = await alike(
        "chat",
        server,
        tool_calls(ASK, text="I look.", reasoning="It must be looked up.", chunked=True),
        answer("It is paid.", reasoning="So it is.", chunked=True),
    )
    assert (asked.text, answered.text) == ("I look.", "It is paid.")


@pytest.mark.parametrize("thought", ["It must be looked up.", ""])
async def test_reasoning_comes_back_under_the_name_it_came_in_also_when_it_says_nothing(
    server: ModelServer, thought: str
) -> None:
    """DeepSeek's documents, "Thinking Mode": with calls `reasoning_content` is demanded in every later request."""
    await alike("chat", server, tool_calls(ASK, reasoning=thought), tool_calls(ASK, reasoning=thought), answer("Paid."))
    bodies = [request.body["messages"] for request in server.requests()]
    thoughts = [
        message["reasoning_content"]
        for messages in bodies
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and "reasoning_content" in message
    ]
    assert thoughts == [thought] * 3


async def test_reasoning_of_one_server_is_not_sent_to_another(server: ModelServer) -> None:
    """Groq and Cerebras refuse a request with fields of others: `property 'reasoning_content' is unsupported`."""
    there = [tool_calls(ASK, reasoning="Hm.", fields={"novel": {"kept": True}}), answer("Paid.")]

    server.play(there)
    driver = driver_of("chat", server)
    elsewhere = driver_of("chat", server, address=server.url.replace("127.0.0.1", "localhost"))
    try:
        reply = await driver.infer(lookup_request())
        (call,) = reply.tool_calls
        said = Message(role=MessageRole.ASSISTANT, parts=reply.parts)
        history = [*lookup_request().messages, said, Message.tool(call.id, call.name, "paid")]
        server.play([answer("Paid.")])
        await elsewhere.infer(ModelRequest(messages=history, tools=[LOOKUP]))
    finally:
        await driver.close()
        await elsewhere.close()
    (request,) = server.requests()
    assert "Hm." not in json.dumps(request.body)
    assert "novel" not in json.dumps(request.body)


async def test_fields_that_nobody_has_heard_of_come_back_as_they_were(server: ModelServer) -> None:
    fields: dict[str, JsonValue] = {
        "reasoning": "In other words.",
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s=="}],
        "extra_content": {"google": {"thought_signature": "abc", "thought": True}},
        "novelty": "of several words",
        "list": [1, "two", {"three": None}],
    }
    await alike("chat", server, tool_calls(ASK, reasoning="Hm.", fields=fields), answer("Paid."))


@pytest.mark.parametrize("block", [SEARCH, ECHO, EMPTY, COMPACTED, UNKNOWN])
async def test_a_block_of_the_providers_own_comes_back_as_it_was(server: ModelServer, block: JsonValue) -> None:
    """Anthropic's documents, "Streaming messages", "MCP connector", "Compaction": tools of the server get their input
    in pieces of JSON, and a compaction comes as one `compaction_delta`.
    """
    script = [tool_calls(ASK, text="I look.", opaque=[block, UNKNOWN]), answer("Paid.", opaque=block)]
    asked, _ = await alike("anthropic", server, *script)
    own = [part.data for part in asked.parts if isinstance(part, ProviderPart)]
    assert own == [{"whole": block}, {"whole": UNKNOWN}]


async def test_an_item_of_the_providers_own_comes_back_as_it_was(server: ModelServer) -> None:
    await alike("responses", server, tool_calls(ASK, reasoning="Hm.", opaque=SHELL), answer("Paid.", opaque=SHELL))
    (_, second, *_) = server.requests()
    assert SHELL in second.body["input"]  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "It is late."])
async def test_a_stream_that_is_done_needs_no_finish_reason(server: ModelServer, text: str) -> None:
    """Snowflake's Cortex names none, streamed or not; `data: [DONE]` is the protocol's own end."""
    (reply,) = await alike("chat", server, answer(text, finish_reason=""))
    assert (reply.text, reply.finish_reason, reply.raw_finish_reason) == (text, FinishReason.OTHER, None)
    assert (reply.usage.input, reply.usage.output) == (11, 7)
    (asked, _) = await alike("chat", server, tool_calls(ASK, finish_reason=""), answer("Paid."))
    assert asked.finish_reason is FinishReason.TOOL_CALLS


async def test_an_answer_that_a_filter_took_away_is_an_empty_reply_with_its_bill(server: ModelServer) -> None:
    """Azure's documents, "Content filtering": a filtered choice has `finish_reason: content_filter` and no message."""
    (reply,) = await alike("chat", server, answer("", finish_reason="content_filter"))
    assert (reply.parts, reply.finish_reason) == ((), FinishReason.CONTENT_FILTER)
    assert (reply.usage.input, reply.usage.output) == (11, 7)


@pytest.mark.parametrize("ids", [[""], [None], ["", ""], [None, None], ["call_x", ""], ["", "call_x"]])
async def test_a_call_without_an_id_gets_one_that_is_the_same_every_time(
    server: ModelServer, ids: Sequence[str | None]
) -> None:
    """Google's compatible endpoint was recorded with `"id": ""`."""
    asked, _ = await alike("chat", server, tool_calls(*[ASK] * len(ids), ids=ids), answer("Paid."))
    made = [call.id for call in asked.tool_calls]
    assert len(made) == len(set(made)) == len(ids)
    assert [given for given in ids if given] == [call_id for call_id in made if call_id == "call_x"]


@pytest.mark.parametrize("protocol", ["chat", "responses", "anthropic"])
async def test_what_a_text_cites_is_kept_and_where_a_provider_takes_it_sent_back(
    server: ModelServer, protocol: str
) -> None:
    """The documents of OpenAI ("Web search": `annotations`) and of Anthropic ("Citations", "Web search tool")."""
    source = ("https://tea.example/late", "Late tea", "It is late.")
    (reply, _) = await alike(protocol, server, answer("Tea is late.", citations=[source, source]), answer("Yes."))
    cited = [part for part in reply.parts if isinstance(part, CitationPart)]
    assert [(part.uri, part.title) for part in cited] == [source[:2]] * 2
    assert reply.text == "Tea is late."
    if protocol == "anthropic":
        assert [part.quote for part in cited] == ["It is late."] * 2
    else:
        assert [(part.start, part.end) for part in cited] == [(0, 12)] * 2
    second = json.dumps(server.requests()[1].body)
    assert second.count("https://tea.example/late") == (0 if protocol == "chat" else 2)


async def test_reasoning_beside_calls_that_does_not_come_back_is_refused(server: ModelServer) -> None:
    async def main() -> None:
        driver = driver_of("chat", server)
        try:
            (call,) = (await driver.infer(lookup_request())).tool_calls
            said = Message.assistant(tool_calls=(ToolCallPart(id=call.id, name=call.name, arguments=call.arguments),))
            history = [*lookup_request().messages, said, Message.tool(call.id, call.name, "paid")]
            await driver.infer(ModelRequest(messages=history, tools=[LOOKUP]))
        finally:
            await driver.close()

    server.play([tool_calls(ASK, reasoning="Hm."), answer("not given out")])
    with pytest.raises(Exception, match="Missing reasoning_content field"):
        await main()


@pytest.mark.parametrize("content", [{"state": "paid"}, [1, 2], [{"state": "paid"}]])
async def test_content_that_is_json_instead_of_text_is_its_text(server: ModelServer, content: JsonValue) -> None:
    """Cloudflare's documents, "JSON mode": the content is the object itself."""
    body: JsonValue = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    (reply, _) = (await spoken("chat", server, [json_body(body)], stream=False))[0] + [None]
    assert reply is not None
    assert json.loads(reply.text) == content
    chunk = {"choices": [{"delta": {"content": content}, "finish_reason": "stop"}]}
    pieces, shown = await spoken(
        "chat", server, [sse_body(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")], stream=True
    )
    assert (pieces[0].text, "".join(shown[0])) == (reply.text, reply.text)


@pytest.mark.parametrize("body", [{"choices": [{"message": {"content": "Late."}, "finish_reason": "stop"}]}, {}, None])
async def test_a_server_that_does_not_stream_is_read_as_one_that_was_not_asked_to(
    server: ModelServer, body: JsonValue
) -> None:
    if not body:
        with pytest.raises(ModelReplyInvalid, match="no choices"):
            await spoken("chat", server, [json_body(body)], stream=True)
        return
    ((reply,), (shown,)) = await spoken("chat", server, [json_body(body)], stream=True)
    assert (reply.text, shown) == ("Late.", ["Late."])
