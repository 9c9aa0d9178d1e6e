"""Task 1.2, through the real driver and a real server: what a person is shown of a reply with tool calls."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from steptrail import AgentBuilder, RunResult, Steptrail, ToolEffect, tool
from steptrail.domain.messages import TextPart
from steptrail.models import OpenAIModel
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


def run(script: list[ScriptedReply], store: str = "sqlite:///:memory:") -> RunResult:
    async def asking(url: str) -> RunResult:
        agent = AgentBuilder("clerk").with_model(OpenAIModel("m", base_url=url)).with_tools(search).build()
        async with Steptrail.open(store) as trail:
            return await trail.run(agent, "Which orders are late?", session="clerk")

    with ModelServer(script) as server:
        return asyncio.run(asking(server.url))


def texts(result: RunResult) -> list[str]:
    """Every piece of natural language that the model put into the conversation."""
    said = [message for message in result.state.messages if message.is_assistant()]
    return [part.text for message in said for part in message.parts if isinstance(part, TextPart)]


@pytest.mark.acceptance("1.2-4")
@pytest.mark.parametrize("echo", ECHOES)
def test_arguments_that_a_server_repeats_as_content_never_become_text(echo: str) -> None:
    result = run([tool_calls(("search", ARGUMENTS), text=echo), answer("Seven.")])
    assert texts(result) == ["Seven."]
    (done,) = result.state.steps[0].tool_executions
    assert done.arguments == ARGUMENTS


@pytest.mark.acceptance("1.2-5")
def test_what_a_person_is_shown_of_a_reply_with_tool_calls_is_language(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    script = [
        tool_calls(("search", ARGUMENTS), text="Let me look."),
        tool_calls(("search", ARGUMENTS), text=ECHOES[0]),
        tool_calls(("search", ARGUMENTS)),
        answer("Seven."),
    ]
    result = run(script, store)
    assert texts(result) == ["Let me look.", "Seven."]
    assert [step.text for step in result.state.steps] == ["Let me look.", "", "", "Seven."]
    assert result.output == "Seven."
    command = [sys.executable, "-m", "steptrail", "show", "clerk", "--store", store]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Let me look." in shown
    assert "search" in shown
    assert "{" not in shown
    assert "late orders" not in shown.replace("late orders in north: 7", "")
