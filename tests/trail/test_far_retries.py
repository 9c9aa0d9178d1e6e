"""Waits for a retry that would end beyond the calendar: a run that waits, can be read, and can be gone on with."""

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.errors import Backoff
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
        if by == "node":
            found = await trail.run(flow, session="s")
            handle = trail.flow("s")
            again = await handle.resume(flow)
        else:
            agent = builder.build()
            found = await trail.run(agent, "Hello", session="s")
            handle = trail.session("s")
            again = await handle.resume(agent)
        assert (found.status, again.status) == ("waiting", "waiting")
        await handle.stop(by="ana")
        assert (await handle.state()).stop_reason == "user_requested"
