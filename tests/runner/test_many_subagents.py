"""Many sessions below one reply: an answer to one of them costs the run the same, however many others wait."""

from collections.abc import Sequence
from typing import Any

import pytest

from steptrail import Agent, Limits, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import (
    ExecutionResumed,
    ToolExecutionStarted,
    WaitEnded,
)
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.python.recording import Recording
from steptrail.testing import call, calls, normalise, replay
from steptrail.tools import ApprovalRule, SubagentTool
from tests.runner.families import asks, boss, named
from tests.runner.kit import HandClock, again_on, trail_of

MONTH = 86_400.0 * 30


def payer(*, expires: float = 3600.0) -> Agent:
    """Return an agent that asks a person once."""

    @tool(effect=ToolEffect.READ, approval=ApprovalRule(expires=expires))
    def pay() -> str:
        """Pay."""
        return "paid"

    return named("payer", call("pay"), "It is paid.").with_tools(pay).build()


def chief(count: int, below: Agent | None = None) -> Agent:
    """Return an agent whose one reply asks so many others at the same time."""
    tools = [SubagentTool(below or payer(), name="payer")]
    return boss(tools, asks("payer", *["pay"] * count), "Done.").build()


def stream(position: int) -> str:
    return f"agent:{session_for_call(f's:1:1:{position}')}"


async def approve(trail: Steptrail, *positions: int) -> None:
    for asked in await trail.inbox():
        if asked.stream in {stream(position) for position in positions}:
            await trail.session(asked.stream.removeprefix("agent:")).approve(asked.id, by="ana")


async def tries_since(trail: Steptrail, before: int) -> list[int]:
    """Return the positions of the calls that have started behind so many events."""
    events = [record.event for record in await trail.session("s").events(after=before)]
    return [event.position for event in events if isinstance(event, ToolExecutionStarted)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
async def test_a_resume_looks_after_those_alone_that_go_on(order: Sequence[int]) -> None:
    agent = chief(4)
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s")
        for position in order:
            version = result.state.version
            await approve(trail, position)
            result = await again_on(trail).session("s").resume(agent)
            assert await tries_since(trail, version) == [position]
            events = [record.event for record in await trail.session("s").events(after=version)]
            (resumed,) = [event for event in events if isinstance(event, ExecutionResumed)]
            assert resumed.moved == (stream(position),)
        assert result.output == "Done."


async def test_several_that_go_on_are_looked_after_in_one_segment() -> None:
    agent = chief(4)
    async with trail_of() as trail:
        version = (await trail.run(agent, "go", session="s")).state.version
        await approve(trail, 1, 3)
        result = await trail.run(agent, "go", session="s")
        assert (result.status, await tries_since(trail, version)) == ("waiting", [1, 3])


async def test_before_anybody_has_answered_none_is_looked_after_and_the_wait_goes_on() -> None:
    agent = chief(2)
    async with trail_of() as trail:
        version = (await trail.run(agent, "go", session="s")).state.version
        result = await trail.session("s").resume(agent)
        events = [record.event for record in await trail.session("s").events(after=version)]
        assert (result.status, await tries_since(trail, version)) == ("waiting", [])
        assert not [event for event in events if isinstance(event, WaitEnded)]
        assert await trail.due() == []


async def test_one_that_waits_for_another_below_it_goes_on_when_that_does() -> None:
    middle = boss([SubagentTool(payer())], asks("payer", "pay"), "Done below.").build()
    agent = chief(3, middle)
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s")
        for left in (2, 1, 0):
            version, asked = result.state.version, (await trail.inbox())[-1]
            await trail.session(asked.stream.removeprefix("agent:")).approve(asked.id, by="ana")
            result = await trail.session("s").resume(agent)
            assert (len(await tries_since(trail, version)), len(await trail.inbox())) == (1, left)
        assert result.output == "Done."


async def test_those_whose_questions_expire_go_on_at_that_time() -> None:
    tools = [SubagentTool(payer(expires=100.0 * (place + 1)), name=f"payer{place}") for place in range(3)]
    agent = boss(tools, calls(*[(f"payer{place}", {"prompt": "pay"}) for place in (2, 0, 1)]), "Done.").build()
    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await trail.run(agent, "go", session="s")
        for position in (1, 2, 0):
            assert await trail.due() == []
            clock.advance(100.0)
            assert "s" in [row.session_id for row in await trail.due()]
            version = result.state.version
            result = await trail.session("s").resume(agent)
            assert await tries_since(trail, version) == [position]
        assert result.output == "Done."


async def test_one_that_was_paused_is_looked_after_and_gone_on_with() -> None:
    agent = chief(2)
    async with trail_of() as trail:
        version = (await trail.run(agent, "go", session="s")).state.version
        child = trail.session(stream(1).removeprefix("agent:"))
        await child.pause(by="ana")
        await trail.session("s").resume(agent)
        assert await tries_since(trail, version) == [1]
        assert (await child.state()).status is ExecutionStatus.WAITING


async def test_a_pause_and_a_stop_take_all_of_them_along() -> None:
    agent = chief(3)
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        await approve(trail, 0)
        await trail.session("s").resume(agent)
        await trail.session("s").pause(by="ana")
        version = (await trail.session("s").state()).version
        await approve(trail, 2)
        result = await trail.session("s").resume(agent)
        assert (result.status, await tries_since(trail, version)) == ("waiting", [2])
        await trail.session("s").stop(by="ana")
        assert {row.status.value for row in await trail.runs()} == {"completed"}


async def test_another_agent_looks_after_all_of_them() -> None:
    async with trail_of() as trail:
        version = (await trail.run(chief(2), "go", session="s")).state.version
        await approve(trail, 1)
        other = boss([SubagentTool(payer(), name="payer", description="Another.")], "Done.").build()
        await trail.session("s").resume(other)
        assert await tries_since(trail, version) == [0, 1]


async def test_one_that_may_run_nothing_beside_anything_goes_on_in_the_order_of_the_reply() -> None:
    agent, alone = chief(3), Limits(max_concurrent_tools=1)
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        await approve(trail, 2)
        assert (await trail.session("s").resume(agent, limits=alone)).status == "waiting"
        assert "s" not in [row.session_id for row in await trail.due()]
        await approve(trail, 0, 1)
        assert (await trail.session("s").resume(agent)).output == "Done."


async def test_a_replay_looks_after_those_that_the_recording_has_looked_after() -> None:
    agent = chief(3)
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        for position in (2, 0, 1):
            await approve(trail, position)
            await trail.session("s").resume(agent)
        recording = Recording("s", await trail.session("s").history())
    again = await replay(agent, recording)
    assert normalise(again.events) == normalise(recording.events)
    moved = [event.moved for event in again.events if isinstance(event, ExecutionResumed)]
    assert moved == [(stream(position),) for position in (2, 0, 1)]


async def test_a_run_that_has_grown_since_the_look_looks_after_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, has_looked = chief(3), False
    async with trail_of() as trail:
        version = (await trail.run(agent, "go", session="s")).state.version
        await approve(trail, 0)
        index = trail.store.index

        async def looked(asked: Any) -> Any:
            nonlocal has_looked
            found = await index(asked)
            if not has_looked and asked.streams is not None and stream(1) in asked.streams:
                has_looked = True
                await approve(again_on(trail), 1)
                await again_on(trail).session("s").post(agent, "And be quick.")
            return found

        monkeypatch.setattr(trail.store, "index", looked)
        assert (await trail.session("s").resume(agent)).status == "waiting"
        assert has_looked
        assert 1 in await tries_since(trail, version)
        assert await trail.due() == []
