"""A command of a process whose clock is a day ahead is stored while a run is at work, and moves no time of that run."""

import asyncio
from pathlib import Path

import pytest

from steptrail import ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import MessagesAppended
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.flow.events import NodeAttemptFailed, NodeAttemptInterrupted
from steptrail.domain.instants import to_datetime
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.testing import ManualClock, call
from steptrail.tools import ToolRetry
from steptrail.workflow import RunOptions, Workflow
from tests.runner.kit import agent_of

DAY = 24 * 3_600 * 10**6
NODE_ENDS = (NodeAttemptFailed, NodeAttemptInterrupted)
HOURLY = Backoff.linear(3600.0, max_seconds=3600.0)


@pytest.mark.parametrize("fails", ["the call", "the model after it"])
async def test_what_is_to_be_tried_again_in_an_hour_waits_for_it(tmp_path: Path, fails: str) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    @tool(retry=ToolRetry(attempts=2, backoff=HOURLY))
    async def serve() -> str:
        """Serve."""
        inside.set()
        await gate.wait()
        if fails == "the call":
            raise ConnectionError("away")
        return "served"

    built = agent_of([call("serve"), ConnectionError("away"), "Done."]).with_tools(serve)
    policy = ErrorPolicy.retry_all(3).with_backoff(HOURLY)
    agent = built.with_error_policy(policy).with_limits(Limits(longest_wait=0.01)).build()
    fast, url = ManualClock(to_datetime(SystemClock().utc() + DAY), running=True), f"sqlite:///{tmp_path / 'runs.db'}"
    async with asyncio.timeout(60), Steptrail.open(url) as trail, Steptrail.open(url, clock=fast) as ahead:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await inside.wait()
        await ahead.session("s").post(agent, "and?")
        gate.set()
        assert (await running).status is ExecutionStatus.WAITING
        assert await trail.due() == []
        (row,) = await trail.runs()
        assert row.due_at is not None
        assert row.updated_at < row.due_at < SystemClock().utc() + DAY


async def test_what_a_run_does_after_such_a_command_is_stored_with_its_own_instants(tmp_path: Path) -> None:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(30.0))
    agent = agent_of([ConnectionError("away"), "Done.", "And done."]).with_error_policy(policy).build()
    right, url = ManualClock(), f"sqlite:///{tmp_path / 'runs.db'}"
    fast = ManualClock(to_datetime(right.utc() + DAY))
    async with asyncio.timeout(60), Steptrail.open(url, clock=right) as trail, Steptrail.open(url, clock=fast) as ahead:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        while not any(row.waits for row in await ahead.runs()):
            await asyncio.sleep(0.01)
        await ahead.session("s").post(agent, "and?")
        right.advance(30)
        assert (await running).status is ExecutionStatus.COMPLETED
        stored = await trail.session("s").events()
    assert [each.event.TYPE for each in stored if each.at >= fast.utc()] == [MessagesAppended.TYPE]
    ours = [each.at for each in stored if each.at < fast.utc()]
    assert (ours, ours[-1]) == (sorted(ours), right.utc())


async def test_what_runs_is_cut_off_when_its_grace_after_a_stop_is_over(tmp_path: Path) -> None:
    inside = asyncio.Event()

    @tool(effect=ToolEffect.IDEMPOTENT)
    async def serve() -> None:
        """Serve."""
        inside.set()
        await asyncio.Event().wait()

    flow = Workflow("t", options=RunOptions(stop_grace=0.01)).tool("a", serve).build()
    fast, url = ManualClock(to_datetime(SystemClock().utc() + DAY), running=True), f"sqlite:///{tmp_path / 'runs.db'}"
    async with asyncio.timeout(60), Steptrail.open(url) as trail, Steptrail.open(url, clock=fast) as ahead:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await inside.wait()
        await ahead.flow("f").stop(by="ana")
        assert (await running).stop_reason is StopReason.USER_REQUESTED
        (cut,) = [each.event for each in await trail.flow("f").events() if isinstance(each.event, NODE_ENDS)]
        assert isinstance(cut, NodeAttemptInterrupted), "and did not come to the end of its own time"
