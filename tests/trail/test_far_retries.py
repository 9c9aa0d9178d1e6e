"""Waits for a retry that would end beyond the calendar: a run that waits, can be read, and can be gone on with."""

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.errors import Backoff
from steptrail.interfaces.python.flow import Flow
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ToolRetry
from steptrail.workflow import RetryPolicy, Workflow

FAR = Backoff.exponential(1e300, max_seconds=1e300)


@tool(effect=ToolEffect.READ, retry=ToolRetry(attempts=3, backoff=FAR))
def away() -> str:
    """Look for somebody who is away."""
    raise ConnectionError("nobody is there")


def lost(envelope: object) -> None:
    raise ConnectionError("nobody is there")


@pytest.mark.parametrize("by", ["policy", "tool", "node"])
async def test_a_wait_beyond_the_calendar_is_a_wait(by: str) -> None:
    builder = AgentBuilder("patient").with_tools(away).with_timeout(None)
    builder.with_error_policy(ErrorPolicy.retry_all(3).with_backoff(FAR))
    builder.with_model(ScriptedModel([ConnectionError("no") if by == "policy" else call("away"), "Done."]))
    flow = Workflow("patient").function("lost", lost, retry=RetryPolicy(max_attempts=3, backoff=1e300)).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        handle = trail.flow("s") if by == "node" else trail.session("s")
        if isinstance(handle, Flow):
            statuses = [(await trail.run(flow, session="s")).status, (await handle.resume(flow)).status]
        else:
            agent = builder.build()
            statuses = [(await trail.run(agent, "Hello", session="s")).status, (await handle.resume(agent)).status]
        assert statuses == ["waiting", "waiting"]
        assert "waiting" in (await handle.why()).verdict
        await handle.stop(by="ana")
        assert (await handle.state()).stop_reason == "user_requested"
