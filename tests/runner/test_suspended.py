"""A machine was suspended in the middle of a run: its clock of durations stood still, and the time of day went on."""

from typing import Any

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ApprovalRule
from steptrail.workflow import RunOptions, Workflow
from tests.runner.kit import HandClock, trail_of

EXPIRES = 600.0


class Laptop(HandClock):
    """The clocks of a machine that sleeps at times."""

    asleep = 0

    def monotonic(self) -> int:
        return self.utc() - self.asleep

    def sleep(self, seconds: int) -> None:
        self.advance(seconds)
        self.asleep += seconds * 10**6


async def test_a_question_that_is_asked_after_that_can_be_answered_for_as_long_as_any_other() -> None:
    clock = Laptop()

    @tool(effect=ToolEffect.READ)
    def look() -> str:
        """Look."""
        clock.sleep(3_600)
        return "seen"

    @tool(approval=ApprovalRule(expires=EXPIRES))
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("look"), call("pay"), "Done."])
    agent = AgentBuilder("desk").with_model(model).with_tools(look, pay).build()
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        (asked,) = await trail.inbox()
        await trail.session("s").approve(asked.id, by="ana")
        ended = await trail.session("s").resume(agent)
        assert (ended.output, ended.state.steps[1].tool_executions[0].result) == ("Done.", "paid")
        assert [step.duration_seconds for step in ended.state.steps] == [0.0, 0.0, 0.0]


async def test_so_can_one_of_a_workflow() -> None:
    clock = Laptop()

    def look(_: Any) -> str:
        clock.sleep(3_600)
        return "seen"

    flow = Workflow("order").function("look", look).human("ask", prompt="Pay?", expires=EXPIRES).chain("look", "ask")
    async with trail_of(clock) as trail:
        await trail.run(flow.build(), "go", session="f")
        (asked,) = await trail.inbox()
        assert asked.expires_at is not None
        assert (asked.expires_at.timestamp() * 1e6 - clock.utc()) / 1e6 == EXPIRES
        await trail.flow("f").answer("ask", approved=True, by="ana")
        assert (await trail.flow("f").resume(flow.build())).status == "completed"


async def test_so_can_a_step_that_is_held() -> None:
    clock = Laptop()

    def look(_: Any) -> str:
        clock.sleep(3_600)
        return "seen"

    flow, options = Workflow("order").function("look", look), RunOptions(pause_after=("look",), step_timeout=EXPIRES)
    async with trail_of(clock) as trail:
        await trail.run(flow.build(), "go", session="f", options=options)
        (asked,) = await trail.inbox()
        assert asked.expires_at is not None
        assert (asked.expires_at.timestamp() * 1e6 - clock.utc()) / 1e6 == EXPIRES
        await trail.flow("f").step("look", "continue", by="ana")
        assert (await trail.flow("f").resume(flow.build())).status == "completed"
