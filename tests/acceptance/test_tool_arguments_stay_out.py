"""Task 1.2, through the real driver and a real server: what a person is shown of a reply with tool calls."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from steptrail import AgentBuilder, RunResult, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import LiveUpdate, ReplyDelta
from steptrail.domain.messages import TextPart
from steptrail.models import AnthropicModel, OpenAIModel, OpenAIResponsesModel, StreamingModelDriver
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.testing.model_script import ScriptedReply, answer, tool_calls
from steptrail.testing.model_server import ModelServer

ARGUMENTS: Mapping[str, JsonValue] = {"query": "late orders", "filter": {"region": "north"}}
ECHOES = (
    json.dumps(ARGUMENTS),
    json.dumps(ARGUMENTS, indent=2),
    json.dumps({key: ARGUMENTS[key] for key in reversed(list(ARGUMENTS))}, separators=(",", ":")),
    f"\n {json.dumps(ARGUMENTS)}\n",
)


@tool(effect=ToolEffect.READ)
def search(query: str, filter: dict[str, str]) -> list[str]:  # noqa: A002 - a tool's parameter
    """Search the orders."""
    return [f"{query} in {filter['region']}: 7"]


DRIVERS: Mapping[str, Callable[[ModelServer], StreamingModelDriver]] = {
    "chat": lambda server: OpenAIModel("m", base_url=server.url),
    "responses": lambda server: OpenAIResponsesModel("m", base_url=server.url),
    "anthropic": lambda server: AnthropicModel("m", base_url=server.root),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer([]) as running:
        yield running


async def run(
    server: ModelServer,
    script: list[ScriptedReply],
    store: str = "sqlite:///:memory:",
    protocol: str = "chat",
    on_update: OnUpdate | None = None,
) -> RunResult:
    async def asking(model: StreamingModelDriver) -> RunResult:
        agent = AgentBuilder("clerk").with_model(model).with_tools(search).build()
        try:
            async with Steptrail.open(store) as trail:
                return await trail.run(agent, "Which orders are late?", session="clerk", on_update=on_update)
        finally:
            await model.close()

    server.play(script)
    return await asking(DRIVERS[protocol](server))


def texts(result: RunResult) -> list[str]:
    """Every piece of natural language that the model put into the conversation."""
    said = [message for message in result.state.messages if message.is_assistant()]
    return [part.text for message in said for part in message.parts if isinstance(part, TextPart)]


@pytest.mark.acceptance("1.2-4")
@pytest.mark.slow("a server in a process of its own")
@pytest.mark.parametrize("protocol", DRIVERS)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_arguments_of_tool_calls_never_become_text(server: ModelServer, protocol: str, is_streamed: bool) -> None:
    seen: list[LiveUpdate] = []
    said = ("", *ECHOES)
    script = [*(tool_calls(("search", ARGUMENTS), ("search", ARGUMENTS), text=echo) for echo in said), answer("Seven.")]
    result = await run(server, script, protocol=protocol, on_update=seen.append if is_streamed else None)
    assert texts(result) == ["Seven."]
    called = [[done.arguments for done in step.tool_executions] for step in result.state.steps]
    assert called == [[ARGUMENTS, ARGUMENTS]] * len(said) + [[]]
    pieces = [update.text for update in seen if isinstance(update, ReplyDelta)]
    assert "".join(pieces) == ("Seven." if is_streamed else "")


@pytest.mark.acceptance("1.2-5")
@pytest.mark.slow("starts a process")
async def test_what_a_person_is_shown_of_a_reply_with_tool_calls_is_language(
    server: ModelServer, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    script = [
        tool_calls(("search", ARGUMENTS), text="Let me look."),
        tool_calls(("search", ARGUMENTS), text=ECHOES[0]),
        tool_calls(("search", ARGUMENTS)),
        answer("Seven."),
    ]
    result = await run(server, script, store)
    assert texts(result) == ["Let me look.", "Seven."]
    assert [step.text for step in result.state.steps] == ["Let me look.", "", "", "Seven."]
    assert result.output == "Seven."
    command = [sys.executable, "-m", "steptrail", "show", "clerk", "--store", store]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Let me look." in shown
    assert "search" in shown
    assert "{" not in shown
    assert "late orders" not in shown.replace("late orders in north: 7", "")
