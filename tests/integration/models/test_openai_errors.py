"""What the real SDK raises over real HTTP, as it is recorded."""

import asyncio
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import openai
import pytest

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.infrastructure.models.errors import ModelUnreachable
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.runtime.agent.capture import capture
from steptrail.testing.model_script import (
    ScriptedReply,
    answer,
    context_overflow,
    cut_off,
    hang,
    not_json,
    overloaded,
    quota_exhausted,
    rate_limited,
    refused,
    tool_calls,
    unauthorized,
    without_choices,
)
from steptrail.testing.model_server import ModelServer

NOW = 1_800_000_000.0
HELLO = ModelRequest(messages=[Message.user("hi")])


async def ask(url: str, request: ModelRequest = HELLO, *, timeout: float = 30.0) -> ModelReply:
    model = OpenAIModel("scripted", base_url=url, api_key="sk-very-secret", timeout=timeout)
    try:
        return await model.infer(request)
    finally:
        await model.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One server for all tests here, because it imports much; each gives it a script of its own."""
    with ModelServer([]) as started:
        yield started


async def failure(
    server: ModelServer, *script: ScriptedReply, request: ModelRequest = HELLO, timeout: float = 30.0
) -> tuple[ErrorInfo, int]:
    """Return what is recorded of one call that fails, and how many requests it took."""
    server.play(script)
    with pytest.raises(Exception, match=r".") as caught:
        await ask(server.url, request, timeout=timeout)
    return capture(caught.value, default=ErrorType.UNKNOWN, now=NOW), len(server.requests())


@pytest.mark.parametrize(
    ("script", "delay"),
    [
        (rate_limited(retry_after="20"), 20.0),
        (rate_limited(retry_after="20", retry_after_ms="1500"), 1.5),
        (rate_limited(retry_after="Fri, 15 Jan 2027 08:01:30 GMT"), 90.0),
        (rate_limited(), None),
    ],
    ids=["seconds", "milliseconds", "date", "nothing"],
)
async def test_a_rate_limit_says_how_long_to_wait(
    server: ModelServer, script: ScriptedReply, delay: float | None
) -> None:
    info, requests = await failure(server, script, answer("a retry by the SDK would get this"))
    assert (info.type, info.retryable, info.retry_after) == (ErrorType.RATE_LIMIT, True, delay)
    assert (info.status_code, info.code) == (429, "rate_limit_exceeded")
    assert requests == 1


@pytest.mark.parametrize(
    ("script", "expected", "retryable", "status", "error_class"),
    [
        (quota_exhausted(), ErrorType.RATE_LIMIT, False, 429, "openai:RateLimitError"),
        (overloaded(), ErrorType.MODEL, True, 500, "openai:InternalServerError"),
        (refused(503, "busy"), ErrorType.MODEL, True, 503, "openai:InternalServerError"),
        (refused(408, "slow"), ErrorType.TIMEOUT, True, 408, "openai:APIStatusError"),
        (refused(409, "again"), ErrorType.MODEL, True, 409, "openai:ConflictError"),
        (unauthorized(), ErrorType.MODEL, False, 401, "openai:AuthenticationError"),
        (context_overflow(), ErrorType.MODEL, False, 400, "openai:BadRequestError"),
        (cut_off(), ErrorType.MODEL, True, None, "openai:APIConnectionError"),
        (
            not_json(),
            ErrorType.MODEL,
            True,
            None,
            "steptrail.infrastructure.models.errors:ModelReplyInvalid",
        ),
        (
            without_choices(),
            ErrorType.MODEL,
            True,
            None,
            "steptrail.infrastructure.models.errors:ModelReplyInvalid",
        ),
    ],
    ids=["quota", "500", "503", "408", "409", "401", "overflow", "cut", "not-json", "no-choices"],
)
async def test_a_failure_is_recorded_as_what_it_is(
    server: ModelServer,
    script: ScriptedReply,
    expected: ErrorType,
    retryable: bool,
    status: int | None,
    error_class: str,
) -> None:
    info, requests = await failure(server, script, answer("a retry by the SDK would get this"))
    assert (info.type, info.retryable, info.status_code, info.error_class) == (
        expected,
        retryable,
        status,
        error_class,
    )
    assert requests == 1


async def test_a_cut_connection_keeps_its_cause(server: ModelServer) -> None:
    info, _ = await failure(server, cut_off())
    assert [cause.partition(": ")[0] for cause in info.causes[:3]] == [
        "steptrail.infrastructure.models.errors:ModelUnreachable",
        "openai:APIConnectionError",
        "httpx2:RemoteProtocolError",
    ]


@pytest.mark.parametrize(("own", "asked"), [(0.2, None), (30.0, 0.2), (0.2, 30.0)])
async def test_the_shorter_of_both_timeouts_ends_a_call_that_hangs(
    server: ModelServer, own: float, asked: float | None
) -> None:
    info, _ = await failure(server, hang(60), request=ModelRequest(messages=HELLO.messages, timeout=asked), timeout=own)
    assert (info.type, info.retryable, info.error_class) == (ErrorType.TIMEOUT, True, "builtins:TimeoutError")
    assert info.message == "no reply from the model 'scripted' within 0.2 s"


async def test_a_slow_reply_inside_the_timeout_is_a_reply(server: ModelServer) -> None:
    server.play([hang(0.2)])
    assert (await ask(server.url)).text == "at last"


@pytest.fixture
def nobody() -> Iterator[str]:
    """The host and port of a socket that does not listen: nobody answers there, and nobody else gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


async def test_nobody_listening_is_told_with_the_address_and_without_what_it_holds_of_credentials(nobody: str) -> None:
    address = f"{nobody}/v1"
    with pytest.raises(ModelUnreachable) as caught:
        await ask(f"http://ana:s3cret@{address}")
    info = capture(caught.value, default=ErrorType.UNKNOWN, now=NOW)
    assert (info.type, info.retryable, info.error_class) == (ErrorType.MODEL, True, "openai:APIConnectionError")
    assert f"the model 'scripted' at http://{address} gave no answer: " in info.message
    assert "s3cret" not in msgspec.json.encode(info).decode()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/8d7f3b2a9c4e5f60aabb/openai", "/v1/…/openai"),
        ("/token/550e8400-e29b-41d4-a716-446655440000", "/token/…"),
        ("/v1?api_key=gateway-key-1", "/v1"),
        ("/v1?code=gateway-key-2", "/v1"),
        ("/openai/deployments/gpt-4o-2024-08-06", "/openai/deployments/gpt-4o-2024-08-06"),
    ],
)
async def test_a_key_in_the_path_or_the_query_of_an_address_is_in_no_error(nobody: str, path: str, shown: str) -> None:
    address = f"http://{nobody}"
    with pytest.raises(ModelUnreachable, match="gave no answer") as caught:
        await ask(address + path)
    assert f" at {address}{shown} gave no answer" in str(caught.value)
    # What the server says of it, and whatever else is told later, passes the same place.
    told = capture(RuntimeError(f"GET {address}{path} was refused"), default=ErrorType.UNKNOWN, now=NOW).message
    key = path.rpartition("=")[2] if "=" in path else next((each for each in path.split("/") if len(each) >= 20), "")
    assert (key in told) is (path == shown)
    assert told.startswith(f"GET {address}/")


async def test_the_key_is_sent_and_never_recorded(server: ModelServer) -> None:
    server.play([unauthorized()])
    with pytest.raises(openai.AuthenticationError) as caught:
        await ask(server.url)
    (request,) = server.requests()
    assert request.headers["authorization"] == "Bearer sk-very-secret"
    info = capture(caught.value, default=ErrorType.MODEL, now=NOW)
    assert info.message == "Incorrect API key provided: sk-…."
    assert "sk-very-secret" not in msgspec.json.encode(info).decode()


async def test_an_address_without_a_key_works_and_no_key_at_all_is_a_configuration_error(
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    async def once(model: OpenAIModel) -> str:
        try:
            return (await model.infer(HELLO)).text
        finally:
            await model.close()

    server.play([answer("by argument"), answer("by environment")])
    assert await once(OpenAIModel("m", base_url=server.url)) == "by argument"
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        await once(OpenAIModel("m"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert await once(OpenAIModel("m")) == "by environment"


async def test_a_client_of_ones_own_is_used_without_its_retries_and_left_open(server: ModelServer) -> None:
    async def main(url: str) -> bool:
        async with openai.AsyncOpenAI(api_key="sk-mine", base_url=url, max_retries=5) as client:
            model = OpenAIModel("m", client=client)
            with pytest.raises(openai.InternalServerError):
                await model.infer(HELLO)
            await model.close()
            return client.is_closed()

    server.play([overloaded(), answer("a retry by the SDK would get this")])
    assert await main(server.url) is False
    assert [request.headers["authorization"] for request in server.requests()] == ["Bearer sk-mine"]


def test_one_driver_serves_one_loop_after_another(server: ModelServer) -> None:
    server.play([answer("one"), answer("two"), answer("three")])
    model = OpenAIModel("m", base_url=server.url)

    async def use(*, close: bool) -> str:
        text = (await model.infer(HELLO)).text
        if close:
            await model.close()
        return text

    assert asyncio.run(use(close=True)) == "one"
    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(use(close=False)) == "two"
        assert second.run(use(close=True)) == "three"
        first.run(model.close())


async def test_a_reply_is_read_whole(server: ModelServer) -> None:
    script = tool_calls(("lookup", {"order": "C3"}), ("lookup", "{broken"), text="Let me look.", finish_reason="stop")
    server.play([script])
    reply = await ask(server.url)
    assert reply.text == "Let me look."
    assert reply.tool_calls == (
        ToolCallPart(id="call_1", name="lookup", arguments={"order": "C3"}),
        ToolCallPart(id="call_2", name="lookup", raw="{broken"),
    )
    assert (reply.finish_reason, reply.raw_finish_reason) == (FinishReason.TOOL_CALLS, "stop")
    assert (reply.usage.input, reply.usage.output) == (11, 7)
    assert (reply.response_id, reply.response_model) == ("chatcmpl-scripted", "scripted-2026")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (
            [Message.user("?"), Message.assistant(tool_calls=(ToolCallPart(id="c1", name="f"),))],
            "did not have response",
        ),
        ([Message.user("?"), Message.tool("c1", "f", "r")], "must be a response to a preceding message"),
    ],
)
async def test_the_server_refuses_what_the_real_service_refuses(
    server: ModelServer, messages: list[Message], why: str
) -> None:
    info, _ = await failure(server, answer("not given out"), request=ModelRequest(messages=messages))
    assert (info.type, info.retryable, info.status_code) == (ErrorType.MODEL, False, 400)
    assert why in info.message


def test_the_server_ends_when_its_standard_input_does(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]")
    command = [sys.executable, "-P", "-m", "steptrail.testing.model_server", "--script", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = process.stdout.readline().removeprefix("READY ").strip().removesuffix("/v1")
        with urllib.request.urlopen(address + "/__requests") as response:  # noqa: S310
            assert response.read() == b"[]"
        process.stdin.close()
        assert process.wait(timeout=30) == 0
