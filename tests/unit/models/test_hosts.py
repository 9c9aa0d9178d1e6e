"""Drivers write a request for the host that they ask, and mark what comes from it."""

import json

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole, ProviderPart
from steptrail.infrastructure.models.anthropic import AnthropicModel
from steptrail.infrastructure.models.anthropic_parsing import parse_body
from steptrail.infrastructure.models.openai import OpenAIResponsesModel

THOUGHT: JsonValue = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x=="}


class Host:
    """Answers each request with one body, and keeps the bodies that were sent."""

    def __init__(self, body: JsonValue) -> None:
        self.body, self.sent = body, list[str]()

    def client(self) -> httpx2.AsyncClient:
        def answer(request: httpx2.Request) -> httpx2.Response:
            self.sent.append(request.content.decode())
            return httpx2.Response(200, json=self.body)

        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


@pytest.mark.parametrize(("host", "goes_back"), [("api.anthropic.com", False), ("compatible.example", True)])
async def test_unsigned_thinking_goes_back_to_other_hosts_than_anthropic_alone(host: str, *, goes_back: bool) -> None:
    content: list[JsonValue] = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Tea."}]
    body: JsonValue = {"content": content, "stop_reason": "end_turn"}
    there = Host(body)
    client = AsyncAnthropic(api_key="k", base_url=f"https://{host}", http_client=there.client())
    said = Message(role=MessageRole.ASSISTANT, parts=parse_body(json.dumps(body)).parts)
    await AnthropicModel("m", client=client).infer(ModelRequest(messages=[Message.user("?"), said, Message.user("?")]))
    assert ("Hm." in there.sent[0]) is goes_back


async def test_reasoning_of_responses_is_marked_with_its_host_and_goes_back_there_alone() -> None:
    told: JsonValue = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Tea."}]}
    there = Host({"status": "completed", "output": [THOUGHT, told]})

    async def asked(host: str, *messages: Message) -> Message:
        client = AsyncOpenAI(api_key="k", base_url=f"https://{host}", http_client=there.client())
        reply = await OpenAIResponsesModel("m", client=client).infer(
            ModelRequest(messages=[Message.user("?"), *messages])
        )
        return Message(role=MessageRole.ASSISTANT, parts=reply.parts)

    said = await asked("api.openai.com")
    marks = {each.provider for each in said.parts if isinstance(each, ProviderPart)}
    assert marks == {"openai-responses@api.openai.com"}
    for host in ("api.openai.com", "ours.openai.azure.com"):
        await asked(host, said)
    assert ["rs_1" in body for body in there.sent] == [False, True, False]
