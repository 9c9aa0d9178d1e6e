"""Task 6.3: what events about tools call things."""

import pytest

from steptrail import ErrorPolicy
from steptrail.lifecycle import RunEvent, ToolCallCompleted, ToolCallStarted
from steptrail.testing import Reply, calls
from tests.runner.kit import agent_of, trail_of


async def seen() -> list[RunEvent]:
    heard: list[RunEvent] = []
    script: list[Reply] = [calls(("add", {"a": 1, "b": 2}), ("fail", {"why": "no tea"})), "done"]
    async with trail_of() as trail:
        trail.wiretap(heard.append)
        agent = agent_of(script).with_error_policy(ErrorPolicy.ignore_tool_errors()).build()
        await trail.run(agent, "go", session="s")
    return heard


@pytest.mark.acceptance("6.3-1")
async def test_a_started_call_says_tool_and_args() -> None:
    started = [event for event in await seen() if isinstance(event, ToolCallStarted)]
    assert [(event.tool, event.args) for event in started] == [("add", {"a": 1, "b": 2}), ("fail", {"why": "no tea"})]
    assert {"tool", "args", "at"} <= started[0].to_dict().keys()
    assert not {"name", "arguments"} & started[0].to_dict().keys()


@pytest.mark.acceptance("6.3-2")
async def test_a_completed_call_says_tool_success_and_error() -> None:
    completed = {event.tool: event for event in await seen() if isinstance(event, ToolCallCompleted)}
    assert (completed["add"].success, completed["add"].error) == (True, None)
    assert (completed["fail"].success, completed["fail"].error) == (False, "no tea")
    assert {"tool", "success", "error", "started", "ended", "duration_ms"} <= completed["fail"].to_dict().keys()
