"""The real small model, in this process. These tests fail, and are not skipped, where its parts are missing."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason, ModelRequest, ToolChoice
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.llama_server import LlamaServer, ServerKey, server_for
from steptrail.infrastructure.models.local import LocalModel, find_weights
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.runtime.agent.capture import capture
from steptrail.testing.model_contract import StreamingModelDriverContract

READ_FILE = ToolSpec(
    name="read_file",
    description="Read one file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)


@pytest.fixture(scope="module")
def module_loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def shared(module_loop: asyncio.Runner, local_server: LlamaServer) -> Iterator[LocalModel]:
    model = LocalModel()
    yield model
    module_loop.run(model.close())


class TestLocalModel(StreamingModelDriverContract):
    @pytest.fixture
    def loop(self, module_loop: asyncio.Runner) -> asyncio.Runner:
        return module_loop

    @pytest.fixture
    def driver(self, shared: LocalModel) -> LocalModel:
        return shared

    @pytest.fixture
    def secret(self, local_server: LlamaServer) -> str:
        return local_server.api_key

    @pytest.fixture
    def failing(self, loop: asyncio.Runner, local_server: LlamaServer) -> Iterator[OpenAIModel]:
        intruder = OpenAIModel("m", base_url=local_server.base_url, api_key="guessed")
        yield intruder
        loop.run(intruder.close())


def test_the_same_question_gets_the_same_words(shared: LocalModel, module_loop: asyncio.Runner) -> None:
    request = ModelRequest(messages=[Message.user("Name three colours.")], parameters={"max_tokens": 30})
    assert module_loop.run(shared.infer(request)).text == module_loop.run(shared.infer(request)).text


def test_an_answer_that_is_cut_says_so(shared: LocalModel, module_loop: asyncio.Runner) -> None:
    request = ModelRequest(messages=[Message.user("Tell me a long story.")], parameters={"max_tokens": 8})
    reply = module_loop.run(shared.infer(request))
    assert (reply.finish_reason, reply.usage.output) == (FinishReason.LENGTH, 8)


def test_a_conversation_that_is_too_long_is_not_retryable(shared: LocalModel, module_loop: asyncio.Runner) -> None:
    with pytest.raises(Exception, match="context size") as caught:
        module_loop.run(shared.infer(ModelRequest(messages=[Message.user("word " * 6000)])))
    info = capture(caught.value, default=ErrorType.UNKNOWN, now=0.0)
    assert (info.type, info.retryable, info.code) == (ErrorType.MODEL, False, "exceed_context_size_error")


def test_every_role_and_a_broken_call_pass_the_template(shared: LocalModel, module_loop: asyncio.Runner) -> None:
    broken = ToolCallPart(id="c1", name="read_file", raw='{"path": ')
    history = [
        Message.developer("You answer questions about files."),
        Message.user("Read it."),
        Message.assistant("I look.", tool_calls=(broken,)),
        Message.tool("c1", "read_file", "the arguments are not JSON", is_error=True),
        Message.developer("Be brief."),
        Message.user("What now?"),
    ]
    request = ModelRequest(
        messages=history, tools=[READ_FILE], tool_choice=ToolChoice.NONE, parameters={"max_tokens": 20}
    )
    assert module_loop.run(shared.infer(request)).finish_reason in (FinishReason.STOP, FinishReason.LENGTH)


async def test_drivers_share_a_server_and_the_last_to_close_stops_it() -> None:
    key = ServerKey(find_weights(), 512, 1)
    hello = ModelRequest(messages=[Message.user("hi")], parameters={"max_tokens": 3})
    one, other = LocalModel(context=512), LocalModel(context=512)
    await one.infer(hello)
    await other.infer(hello)
    address = server_for(key).base_url
    await one.close()
    await other.infer(hello)
    assert server_for(key).base_url == address
    await other.close()
    await other.close()
    stale = OpenAIModel("m", base_url=address)
    with pytest.raises(Exception, match="gave no answer"):
        await stale.infer(hello)
    await stale.close()
    assert (await other.infer(hello)).usage.output > 0
    await other.close()


async def test_weights_that_cannot_be_loaded_are_a_configuration_error(tmp_path: Path) -> None:
    weights = tmp_path / "junk.gguf"
    weights.write_text("not a model")
    model = LocalModel(weights)
    with pytest.raises(ConfigurationError, match="cannot load the weights"):
        await model.infer(ModelRequest(messages=[Message.user("hi")]))


@pytest.mark.parametrize("ending", ["await model.close()", "pass", "task = asyncio.create_task(model.infer(story))"])
def test_the_terminal_stays_clean_and_the_process_ends(ending: str) -> None:
    program = f"""
import asyncio
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import Message
from steptrail.models import LocalModel
story = ModelRequest(messages=[Message.user("Tell me a long story.")], parameters={{"max_tokens": 2000}})
async def main():
    model = LocalModel()
    hello = ModelRequest(messages=[Message.user("hi")], parameters={{"max_tokens": 3}})
    print(bool((await model.infer(hello)).parts))
    {ending}
    await asyncio.sleep(0.2)
asyncio.run(main())
"""
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_server_that_is_let_go_of_at_once_ends_also_on_a_busy_machine() -> None:
    program = (
        "from steptrail.infrastructure.models.llama_server import LlamaServer, ServerKey\n"
        "from steptrail.infrastructure.models.local import find_weights\n"
        "LlamaServer(ServerKey(find_weights(), 512, 1))\n"
        "print('ended')"
    )
    # Several at a time keep each other's threads from being served, which is when two of three once hung for ever.
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        assert [process.communicate(timeout=100)[0] for process in running] == ["ended\n"] * 3
    finally:
        for process in running:
            process.kill()
            process.wait()
