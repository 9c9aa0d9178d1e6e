"""A server that sends a request on to another one, which must not get the key."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import Message
from steptrail.infrastructure.models.anthropic import AnthropicModel
from steptrail.infrastructure.models.openai import OpenAIModel


@asynccontextmanager
async def answering(status: int, location: str = "") -> AsyncGenerator[tuple[int, list[str]]]:
    """Serve one answer, and yield the port and the heads of the requests, in lower case."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(f"HTTP/1.1 {status} .\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], heads


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another host", "another port"])
@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
async def test_the_key_stays_where_a_request_was_sent_to(
    kind: type[AnthropicModel] | type[OpenAIModel], host: str
) -> None:
    async with answering(401) as (there, heads), answering(307, f"http://{host}:{there}/v1") as (here, asked):
        model = kind("m", base_url=f"http://127.0.0.1:{here}", api_key="sk-here-and-nowhere-else")
        with pytest.raises(Exception, match="401"):
            await model.infer(ModelRequest(messages=[Message.user("?")]))
        await model.close()
    assert "sk-here" in asked[0]
    assert heads
    assert "sk-here" not in heads[0]
