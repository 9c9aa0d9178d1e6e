"""A verdict on a call in doubt is given once: who comes second is told who was first, and when."""

import pytest

from steptrail import ToolEffect, tool
from steptrail.errors import CommandRejected
from steptrail.testing import call
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
