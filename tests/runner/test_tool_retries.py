"""A tool that fails is tried again by its own rule, and nobody hears of it unless the last try fails too."""

import asyncio
from datetime import datetime
from email.utils import format_datetime

import pytest

from steptrail import AgentBuilder, Limits, ToolEffect, tool
from steptrail.domain.agent.events import ToolExecutionFailed, ToolExecutionStarted, ToolRetryScheduled, WaitStarted
from steptrail.domain.flow.events import NodeRetryScheduled
from steptrail.domain.instants import to_datetime
from steptrail.errors import Backoff, ConfigurationError
from steptrail.infrastructure.tools.decorator import Tool
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import ToolContext, ToolRetry
from steptrail.workflow import RetryPolicy, Workflow
from tests.flow.kit import LEAVES
from tests.runner.kit import HandClock, Run, run, trail_of

RULE = ToolRetry(attempts=3, backoff=Backoff.linear(5.0))


class Busy(Exception):
    """What a client raises for an answer that says when to ask again."""

    def __init__(self, when: datetime) -> None:
        super().__init__("busy")
        self.status_code, self.headers = 503, {"retry-after": format_datetime(when, usegmt=True)}


async def asking(*tools: Tool, script: list[Reply]) -> Run:
    return await run(AgentBuilder("stubborn").with_model(ScriptedModel(script)).with_tools(*tools).build())


async def test_a_call_that_fails_twice_and_then_returns_has_returned_after_two_waits() -> None:
    seen: list[tuple[str, int]] = []

    @tool(effect=ToolEffect.KEYED, retry=RULE, retry_on=(ConnectionError,))
    def charge(context: ToolContext) -> str:
        """Charge a card."""
        seen.append((context.effect_id, context.attempt))
        if len(seen) < 3:
            raise ConnectionResetError("no line")
        return "charged"

    ran = await asking(charge, script=[call("charge"), "done"])
    assert (ran.ending, ran.shown) == (("completed", "completed"), ["charged"])
    assert seen == [("s:1:1:0", 1), ("s:1:1:0", 2), ("s:1:1:0", 3)]
    assert [(e.failures, e.delay_seconds) for e in ran.all(ToolRetryScheduled)] == [(1, 5.0), (2, 10.0)]
    assert [(e.kind, e.position) for e in ran.all(WaitStarted)] == [("tool_retry", 0)] * 2
    # Waiting is not working: the time limit on work does not see it.
    assert ran.result.state.cumulative_execution_seconds < 5


async def test_when_every_try_fails_the_model_and_the_policy_hear_of_the_last() -> None:
    @tool(retry=2)
    def charge() -> str:
        """Charge a card."""
        raise ValueError("declined")

    ran = await asking(charge, script=[call("charge")])
    assert ran.ending == ("failed", "error")
    assert (len(ran.all(ToolExecutionStarted)), len(ran.all(ToolExecutionFailed))) == (2, 2)
    assert ran.shown == ["Error in tool call: declined"]
    assert ran.result.state.total_failures == 1


@pytest.mark.parametrize("broken", ["not covered", "bad arguments"])
async def test_what_its_rule_does_not_cover_is_not_tried_again(broken: str) -> None:
    @tool(retry=3, retry_on=(ConnectionError,))
    def charge(cents: int) -> str:
        """Charge a card."""
        raise ValueError(f"{cents} declined")

    ran = await asking(
        charge, script=[call("charge", cents=5) if broken == "not covered" else call("charge", cents="x")]
    )
    assert len(ran.all(ToolExecutionStarted)) == 1
    assert ran.all(ToolRetryScheduled) == []


async def test_a_reading_call_that_runs_out_of_time_is_tried_again_when_its_rule_covers_timeouts() -> None:
    tries: list[int] = []

    @tool(effect=ToolEffect.READ, timeout=0.05, retry=ToolRetry(attempts=2, backoff=Backoff.none()))
    async def look() -> str:
        """Look something up."""
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "42"

    assert (await asking(look, script=[call("look"), "done"])).shown == ["42"]


async def test_what_may_have_taken_effect_is_never_tried_again_by_a_rule() -> None:
    tries: list[int] = []

    @tool(timeout=0.05, retry=3)
    async def pay() -> str:
        """Pay."""
        tries.append(1)
        await asyncio.Event().wait()
        return "paid"

    ran = await asking(pay, script=[call("pay"), "done"])
    assert (len(tries), ran.result.state.steps[0].tool_executions[0].status) == (1, "interrupted")


def test_the_rule_is_recorded_with_the_tool() -> None:
    @tool(retry=RULE, retry_on=(ConnectionError, TimeoutError))
    def charge() -> str:
        """Charge a card."""
        return "charged"

    recorded = charge.spec.retry
    assert recorded is not None
    assert recorded.retry_on == ("builtins:ConnectionError", "builtins:TimeoutError")
    assert recorded.backoff == Backoff.linear(5.0)


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_rule_without_a_first_try_is_refused(attempts: int) -> None:
    with pytest.raises(ConfigurationError, match=r"charge' makes no tool: attempts"):

        @tool(retry=attempts)
        def charge() -> str:
            """Charge a card."""
            return "charged"


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_an_instant_that_is_asked_for_is_waited_for_from_the_end_of_a_call_however_long_that_took(
    kind: str,
) -> None:
    clock = HandClock()

    @tool(effect=ToolEffect.READ, retry=RULE, retry_on=(Busy,))
    def ask() -> str:
        """Ask."""
        clock.advance(600.0)
        raise Busy(to_datetime(clock.utc() + 30 * 10**6))

    flow = Workflow("t").tool("ask", ask, retry=RetryPolicy(max_attempts=2, backoff=5.0), timeout=None).build()
    async with trail_of(clock) as trail:
        if kind == "agent":
            limits = Limits(longest_wait=0, timeout=None)
            asking = AgentBuilder("a").with_model(ScriptedModel([call("ask")])).with_tools(ask).with_limits(limits)
            await trail.run(asking.build(), "go", session="s")
        else:
            await trail.run(flow, session="s", options=LEAVES)
        scheduled = [
            (entry.record.event.retry_after, entry.record.event.delay_seconds)
            async for entry in trail.subscribe(follow=False)
            if isinstance(entry.record.event, ToolRetryScheduled | NodeRetryScheduled)
        ]
    assert scheduled == [(30.0, 30.0)]
