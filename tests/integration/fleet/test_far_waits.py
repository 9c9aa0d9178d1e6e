"""What waits for days does not keep a worker from what is due before."""

import asyncio

import pytest

from steptrail import Steptrail, tool
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.runtime.kernel import woken
from steptrail.testing import call, calls
from steptrail.tools import SubagentTool
from tests.runner.kit import agent_of


@tool(approval=True)
def pay(order: int) -> str:
    """Pay an order."""
    return f"{order} is paid"


async def test_the_second_answer_below_moves_a_run_also_where_only_the_first_was_told_to_the_engine(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(woken, "SWEEP_SECONDS", 0.05)
    asking = calls(("pay", {"order": 1}), ("pay", {"order": 2}))
    below = SubagentTool(agent_of([asking, "Both are paid."]).with_tools(pay).build(), name="below")
    boss = agent_of([call("below", prompt="pay"), "All is paid."]).with_tools(below).build()
    engine = ProcrastinateEngine(postgres_url, poll=0.05)
    async with asyncio.timeout(90), Steptrail.open(postgres_url, engine=engine) as trail:
        await trail.run(boss, "go", session="s")
        first, second = await trail.inbox()
        await trail.session(first.stream.removeprefix("agent:")).approve(first.id, by="ana")
        async with trail.work(boss), Steptrail.open(postgres_url) as without_an_engine:
            child = without_an_engine.session(second.stream.removeprefix("agent:"))
            await child.approve(second.id, by="ben")
            while (await trail.session("s").state()).status != ExecutionStatus.COMPLETED:
                await asyncio.sleep(0.05)
