"""Recordings of runs that really happened, and the agents that made them."""

from collections.abc import Sequence

import pytest

from steptrail import Agent
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.state import AgentState
from steptrail.domain.messages import Message
from steptrail.runtime.control import SessionControl
from steptrail.testing import Recording, normalise
from tests.golden.record import SESSION, STORIES
from tests.runner.kit import HandClock

__all__ = ["apart_from_the_process", "story"]


async def story(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Agent, Recording]:
    """Return the first agent of a golden story, and what was recorded of it."""
    agents: list[Agent] = []
    really_run = SessionControl.run

    async def run(control: SessionControl, agent: Agent, message: Message, **more: object) -> AgentState:
        agents.append(agent)
        return await really_run(control, agent, message, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(SessionControl, "run", run)
        trail = await STORIES[name](HandClock())
    async with trail:
        return agents[0], Recording(SESSION, await trail.session(SESSION).history())


def apart_from_the_process(events: Sequence[AgentEvent]) -> Sequence[AgentEvent]:
    return normalise(events)
