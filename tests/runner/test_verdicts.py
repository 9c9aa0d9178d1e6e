"""A verdict on a call in doubt is given once: who comes second is told who was first, and when."""

import asyncio
from typing import Any

import pytest

from steptrail import ToolEffect, tool
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.testing import Reply, call, calls
from steptrail.tools import OnUnknown
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of


@tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize("verdict", ["completed", "failed", "rerun", "tell"])
async def test_who_comes_second_with_a_verdict_is_told_who_was_first(verdict: str) -> None:
    agent, clock = agent_of([call("pay"), "Done."]).with_tools(pay).build(), HandClock()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-tool")).run(agent, "go", session="s")
        session = trail.session("s")
        await session.resume(agent)
        with pytest.raises(CommandRejected, match="no call with the effect id 's:1:1:1' waits for a verdict"):
            await session.settle("s:1:1:1", "tell", by="ana")
        await session.settle("s:1:1:0", verdict, by="ana")  # type: ignore[arg-type]
        first = "ana has settled it already, at 2027-01-15 08:00:00 UTC, and a call in doubt is settled once"
        for _ in range(2):
            with pytest.raises(CommandRejected, match=first):
                await session.settle("s:1:1:0", "completed", by="ben")
            await session.resume(agent)


async def test_a_verdict_before_the_call_was_in_doubt_again_is_not_the_one_that_came_first() -> None:
    agent, clock = agent_of([call("pay"), "Done."]).with_tools(pay).build(), HandClock()
    async with trail_of(clock) as trail:
        session = trail.session("s")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-tool")).run(agent, "go", session="s")
        await session.resume(agent)
        await session.settle("s:1:1:0", "rerun", by="ana")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-tool")).session("s").resume(agent)
        await session.resume(agent)
        await session.stop(by="ops")
        with pytest.raises(CommandRejected, match="no call with the effect id 's:1:1:0' waits for a verdict") as told:
            await session.settle("s:1:1:0", "completed", by="ben")
        assert "ana" not in str(told.value)


@pytest.mark.parametrize("verdict", ["completed", "failed", "rerun", "tell"])
@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_verdict_on_one_of_two_calls_in_doubt_settles_that_one_alone(verdict: Any, is_paused: bool) -> None:
    sent: list[str] = []
    both = asyncio.Event()

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK, concurrent=True)
    async def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        if len(sent) == 2:
            both.set()
        await both.wait()
        return f"sent to {to}"

    script: list[Reply] = [calls(("send", {"to": "ana"}), ("send", {"to": "ben"})), "Done."]
    agent, clock = agent_of(script).with_tools(send).build(), HandClock()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-tool")).run(agent, "go", session="s")
        session = trail.session("s")
        await session.resume(agent)
        if is_paused:
            await session.pause(by="ana")
        if verdict in {"rerun", "tell"}:
            with pytest.raises(CommandRejected, match="the run does not ask about 's:1:1:1' yet"):
                await session.settle("s:1:1:1", verdict, by="ana")
        else:
            await session.settle("s:1:1:1", verdict, by="ana")
        first, second = (await session.state()).tool_executions
        assert first.phase is CallPhase.PARKED
        assert second.phase in {CallPhase.PARKED, CallPhase.COMPLETED, CallPhase.FAILED}
        await session.settle("s:1:1:0", "rerun", by="ben")
        sent.clear()
        await session.resume(agent)
        if verdict in {"rerun", "tell"}:
            with pytest.raises(CommandRejected, match="ben has settled it already"):
                await session.settle("s:1:1:0", "tell", by="ana")
            await session.settle("s:1:1:1", verdict, by="ana")
        done = await session.resume(agent)
    assert done.status is (ExecutionStatus.FAILED if verdict == "failed" else ExecutionStatus.COMPLETED)
    assert sent == (["ana", "ben"] if verdict == "rerun" else ["ana"])
