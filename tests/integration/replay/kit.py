"""Recordings of runs that really happened, and the agents that made them."""

from typing import Any

import pytest

from steptrail import Agent, AgentBuilder, ToolEffect, tool
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.result import RunResult
from steptrail.testing import Recording, ReplayMismatch, Reply, ScriptedModel, call, replay
from tests.golden.record import SESSION, STORIES
from tests.runner.kit import HandClock, trail_of

TOUCHED: list[str] = []
"""What the real tools were called with."""


@tool(effect=ToolEffect.READ)
def stock(item: str) -> int:
    """Count what is left of an item."""
    TOUCHED.append(item)
    return {"tea": 3, "coffee": 0}[item]


@tool(effect=ToolEffect.READ)
def priced(item: str) -> str:
    """Look up a price."""
    TOUCHED.append(item)
    return "4.50"


SCRIPT: tuple[Reply, ...] = (call("stock", item="tea"), call("stock", item="coffee"), "3 and none.")


def shop(*script: Reply) -> AgentBuilder:
    model = ScriptedModel(script or SCRIPT)
    return AgentBuilder("shop").with_model(model).with_system_prompt("Be brief.").with_tools(stock, priced)


async def recorded(agent: Agent, text: str = "What is left?") -> Recording:
    async with trail_of() as trail:
        await trail.run(agent, text, session="s")
        return Recording("s", await trail.session("s").history())


async def recording_of(agent: Agent | AgentBuilder, text: str = "What is left?") -> Recording:
    """Return what is recorded of a run; the real tools have been touched by it, and that is forgotten."""
    made = await recorded(agent if isinstance(agent, Agent) else agent.build(), text)
    TOUCHED.clear()
    return made


async def mismatch_of(agent: AgentBuilder, recording: Recording, **how: Any) -> str:
    """Return how a replay ends with an agent that is another one by now."""
    with pytest.raises(ReplayMismatch) as caught:
        await replay(agent.build(), recording, **how)
    assert TOUCHED == []
    return str(caught.value)


async def story(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Agent, Recording]:
    """Return the first agent of a golden story, and what is recorded of it."""
    agents: list[Agent] = []
    really_run = SessionControl.run

    async def run(control: SessionControl, agent: Agent, *given: Any, **more: Any) -> RunResult:
        agents.append(agent)
        return await really_run(control, agent, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(SessionControl, "run", run)
        trail = await STORIES[name](HandClock())
    async with trail:
        return agents[0], Recording(SESSION, await trail.session(SESSION).history())
