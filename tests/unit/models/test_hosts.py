"""Drivers write a request for the host that they ask, and mark what comes from it."""

import httpx2
import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole, ProviderPart
from steptrail.infrastructure.models.anthropic import AnthropicModel
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


@pytest.mark.parametrize(
    ("asked", "then", "goes_back"),
    [
        ("api.anthropic.com", "bedrock-runtime.eu-central-1.amazonaws.com", True),
        ("api.anthropic.com", "vpce-1.bedrock-runtime.eu-central-1.vpce.amazonaws.com", True),
        ("bedrock-mantle.eu-central-1.api.aws", "ours.services.ai.azure.com", True),
        ("europe-west1-aiplatform.googleapis.com", "claude.googleapis.com", True),
        ("ours.eu-central-1.elb.amazonaws.com", "api.anthropic.com", False),
        ("ours.westeurope.cloudapp.azure.com", "api.anthropic.com", False),
        ("notanthropic.com", "api.anthropic.com", False),
        ("compatible.example", "compatible.example", True),
        ("compatible.example", "other.example", False),
        ("compatible.example", "api.anthropic.com", False),
    ],
)
async def test_signed_thinking_goes_to_no_host_that_would_refuse_it(asked: str, then: str, *, goes_back: bool) -> None:
    from anthropic import AsyncAnthropic

    thought: JsonValue = {"type": "thinking", "thinking": "Hm.", "signature": "s=="}
    there = Host({"content": [thought, {"type": "text", "text": "Tea."}], "stop_reason": "end_turn"})

    async def say(host: str, *messages: Message) -> Message:
        client = AsyncAnthropic(api_key="k", base_url=f"https://{host}", http_client=there.client())
        question = ModelRequest(messages=[Message.user("?"), *messages])
        reply = await AnthropicModel("m", client=client).infer(question)
        return Message(role=MessageRole.ASSISTANT, parts=reply.parts)

    await say(then, await say(asked), Message.user("?"))
    assert ["s==" in body for body in there.sent] == [False, goes_back]
    assert "Tea." in there.sent[1]


async def test_reasoning_of_responses_is_marked_with_its_host_and_goes_back_there_alone() -> None:
    from openai import AsyncOpenAI

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
