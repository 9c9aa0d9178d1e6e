"""Sessions in which two features of an agent meet: each of them holds as it does alone."""

from typing import Any

import pytest

from steptrail import AgentBuilder, Limits, OnUnknown, Steptrail, ToolEffect, tool
from steptrail.errors import Backoff
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool, ToolRetry
from tests.runner.kit import run, trail_of
from tests.runner.test_changed_tools import KEYED, UNSAFE, Shop, clerk, cut_off, texts_of

UNKNOWN = "The outcome of this call is unknown"


async def begun(trail: Steptrail, shop: Shop, how: str) -> Any:
    """Begin a call that has paid, and that is to run again or to go on; return its agent."""
    if how == "asks below":
        agent = clerk(SubagentTool(shop.below(), name="below"), first=call("below", prompt="go"))
        await trail.run(agent, "go", session="s")
        return agent
    agent = clerk(shop.pay(KEYED if how == "drained" else UNSAFE, OnUnknown.PARK))
    await cut_off(trail, agent, shop, "drain" if how == "drained" else "crash")
    if how == "to be rerun":
        await trail.session("s").resume(agent)
        (asked,) = await trail.inbox()
        await trail.session("s").settle(asked.id, "rerun", by="ana")
    return agent


@pytest.mark.parametrize("how", ["drained", "to be rerun", "asks below"])
@pytest.mark.parametrize("end", ["stop", "limit"])
async def test_a_call_that_was_begun_and_is_not_run_again_has_an_unknown_outcome(how: str, end: str) -> None:
    shop = Shop()
    async with trail_of() as trail:
        agent = await begun(trail, shop, how)
        if end == "stop":
            await trail.session("s").stop(by="ana")
        else:
            await trail.session("s").resume(agent, limits=Limits(max_steps=0))
        (told,) = await texts_of(trail)
        state = await trail.session("s").state()
    assert told.startswith(UNKNOWN)
    assert (state.is_open, state.steps[0].tool_executions[0].status) == (False, "interrupted")


async def test_a_call_that_failed_and_for_whose_next_try_no_time_is_left_has_failed() -> None:
    @tool(effect=ToolEffect.READ, retry=ToolRetry(attempts=3, backoff=Backoff.linear(50.0)))
    def charge() -> str:
        """Charge a card."""
        raise ConnectionError("no line")

    agent = AgentBuilder("x").with_model(ScriptedModel([call("charge")])).with_tools(charge).with_timeout(40)
    ran = await run(agent.build())
    assert (ran.ending, ran.shown) == (("failed", "time_limit"), ["Error in tool call: no line"])
    assert ran.result.error is not None
    assert ran.result.error.message == "no line"
