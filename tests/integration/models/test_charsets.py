"""A server that names a character set for its JSON, which is UTF-8 whatever is said of it."""

import asyncio
import json

import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import Message
from steptrail.models import OpenAIModel
from steptrail.runtime.agent.capture import capture

HELLO = ModelRequest(messages=[Message.user("hi")])
REPLY = {"choices": [{"message": {"content": "café a-9"}, "finish_reason": "stop"}]}
FAILURE = {"error": {"message": "the café a-9 is closed"}}


async def asked(status: str, body: object, charset: str) -> str:
    """Return the text of a reply, or the message that is recorded of a failure with its status."""
    sent = json.dumps(body, ensure_ascii=False).encode()
    kind = f"application/json; charset={charset}"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(sent)}\r\nConnection: close\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode() + sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        model = OpenAIModel("any", base_url=f"http://{host}:{port}", api_key="k")
        try:
            return (await model.infer(HELLO)).text
        except Exception as error:
            info = capture(error, default=ErrorType.MODEL, now=0.0)
            return f"{info.status_code}: {info.message}"
        finally:
            await model.close()


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "idna", "punycode", "utf-8"])
async def test_json_is_read_as_utf_8_whatever_character_set_it_is_said_to_have(charset: str) -> None:
    assert await asked("200 OK", REPLY, charset) == "café a-9"
    assert await asked("400 Bad Request", FAILURE, charset) == "400: the café a-9 is closed"
