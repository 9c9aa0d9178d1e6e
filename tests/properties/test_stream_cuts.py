"""Three calls side by side in one stream: wherever the network cuts it, names and arguments are what was sent."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import httpx2
import openai
import pytest
from hypothesis import given, strategies as st

from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.infrastructure.models.anthropic import AnthropicModel
from steptrail.infrastructure.models.openai import OpenAIModel, OpenAIResponsesModel
from steptrail.runtime.kernel.ports import StreamingModelDriver
from steptrail.testing.model_contract import LOOKUP, streamed
from steptrail.testing.model_server import Wire
from steptrail.testing.model_wire import SseEvent, WireCall, WireReply
from steptrail.testing.model_wire_anthropic import AnthropicWire
from steptrail.testing.model_wire_chat import ChatWire
from steptrail.testing.model_wire_responses import ResponsesWire
from tests.profile import examples

PROTOCOLS = ("chat", "responses", "anthropic")
WIRES: dict[str, Wire] = {"chat": ChatWire(), "responses": ResponsesWire(), "anthropic": AnthropicWire()}
TEXT = "I lök. \N{GRINNING FACE}"
REQUEST = ModelRequest(messages=[Message.user("?")], tools=[LOOKUP])

# No lone surrogates: JSON cannot carry them in UTF-8.
WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES: st.SearchStrategy[JsonValue] = WORDS | st.integers(-9, 9) | st.lists(WORDS, max_size=2).map(list[JsonValue])
ARGUMENTS: st.SearchStrategy[dict[str, JsonValue]] = st.dictionaries(WORDS, VALUES, max_size=3)


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes], ending: str) -> None:
        self.pieces, self.ending = pieces, ending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.ending == "breaks":
            raise httpx2.ReadError("reset by peer")
        if self.ending == "hangs":
            await asyncio.Event().wait()


class Line(httpx2.AsyncBaseTransport):
    """A network that delivers one body in pieces."""

    def __init__(self, pieces: Sequence[bytes], ending: str) -> None:
        self.pieces, self.ending = pieces, ending

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Pieces(self.pieces, self.ending), request=request)


def written(event: SseEvent) -> bytes:
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def body_of(protocol: str, wanted: Sequence[dict[str, JsonValue]]) -> bytes:
    calls = tuple(
        WireCall(f"call_{place}", f"tool_{place}", json.dumps(arguments, ensure_ascii=False))
        for place, arguments in enumerate(wanted)
    )
    counts: dict[str, JsonValue] = {"prompt_tokens": 3, "completion_tokens": 2}
    reply = WireReply(1, TEXT, "tool_calls", counts, reasoning="Hm.", calls=calls)
    return b"".join(map(written, WIRES[protocol].events(reply, {"stream_options": {"include_usage": True}})))


def driver_of(protocol: str, http: httpx2.AsyncClient) -> StreamingModelDriver:
    if protocol == "anthropic":
        # Some thousand modules, which each process that collects the tests would import.
        import anthropic

        return AnthropicModel("m", client=anthropic.AsyncAnthropic(api_key="k", http_client=http))
    client = openai.AsyncOpenAI(api_key="k", http_client=http)
    return OpenAIModel("m", client=client) if protocol == "chat" else OpenAIResponsesModel("m", client=client)


async def received(protocol: str, pieces: Sequence[bytes], ending: str) -> tuple[str, ModelReply]:
    async with httpx2.AsyncClient(transport=Line(pieces, ending)) as http:
        deltas, reply = await streamed(driver_of(protocol, http), REQUEST)
    return "".join(delta.text for delta in deltas if delta.kind == "text"), reply


async def check(
    protocol: str, wanted: Sequence[dict[str, JsonValue]], pieces: Sequence[bytes], *, ending: str = "ends"
) -> None:
    shown, reply = await received(protocol, pieces, ending)
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        (f"call_{place}", f"tool_{place}", arguments) for place, arguments in enumerate(wanted)
    ]
    assert shown == reply.text == TEXT
    assert (reply.usage.input, reply.usage.output) == (3, 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@examples(40)
@given(data=st.data())
async def test_interleaved_calls_keep_names_and_arguments_wherever_the_stream_is_cut(
    protocol: str, data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(ARGUMENTS, min_size=3, max_size=3))
    body = body_of(protocol, wanted)
    places = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=30)))
    pieces = [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]
    await check(protocol, wanted, pieces)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_interleaved_calls_keep_names_and_arguments_byte_by_byte(protocol: str) -> None:
    wanted: list[dict[str, JsonValue]] = [{"order": "Ä1 \N{GRINNING FACE}"}, {}, {"a": [1, "{"], "b": {"c": "\u2028"}}]
    body = body_of(protocol, wanted)
    await check(protocol, wanted, [body[place : place + 1] for place in range(len(body))])


@pytest.mark.parametrize("ending", ["breaks", "hangs"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_a_connection_does_after_the_last_event_changes_nothing(
    protocol: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.models.sdk_reading._LONGEST_DRAIN", 0.02)
    await check(protocol, [{"order": "A1"}], [body_of(protocol, [{"order": "A1"}])], ending=ending)
