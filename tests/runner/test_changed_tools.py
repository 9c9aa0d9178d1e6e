"""A call that was begun is gone on with by an agent whose tool is gone by then, or is another one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, OnUnknown, Steptrail, ToolEffect, tool
from steptrail.errors import CommandRejected
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SpawnSubagent, Subagent, SubagentTool
from tests.runner.kit import Crash, again_on, crash_at, trail_of

UNSAFE, KEYED = ToolEffect.UNSAFE, ToolEffect.KEYED


class Shop:
    """Counts what was paid, and waits in the middle of it while it is told to."""

    def __init__(self) -> None:
        self.paid = 0
        self.at_work, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def pay(self, effect: ToolEffect = KEYED, on_unknown: OnUnknown = OnUnknown.TELL) -> Any:
        @tool(effect=effect, on_unknown=on_unknown)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            self.at_work.set()
            await self.gate.wait()
            return "paid"

        return pay

    def below(self) -> Agent[Any]:
        """Return an agent that asks before it pays."""

        @tool(effect=UNSAFE, approval=True)
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        return AgentBuilder("below").with_model(ScriptedModel([call("pay"), "It is paid."])).with_tools(pay).build()


def clerk(*tools: Any, first: Any = None) -> Agent[Any]:
    model = ScriptedModel([first or call("pay"), "Done."])
    builder = AgentBuilder("clerk").with_model(model).with_error_policy(ErrorPolicy.ignore_tool_errors())
    return (builder.with_tools(*tools) if tools else builder).build()


async def texts_of(trail: Steptrail) -> Sequence[str]:
    return [each.message().parts[0].text for each in (await trail.session("s").state()).steps[0].tool_executions]  # type: ignore[union-attr]


async def cut_off(trail: Steptrail, agent: Agent[Any], shop: Shop, how: str) -> None:
    """Run an agent until its call has paid and nobody knows: the process dies, or a worker drains."""
    if how == "crash":
        with pytest.raises(Crash):
            await again_on(trail, reach=crash_at("after-tool")).run(agent, "go", session="s")
        return
    shop.gate.clear()
    await trail.start(agent, "go", session="s")
    async with trail.work(agent, grace=0.0):
        await shop.at_work.wait()
    shop.gate.set()


@pytest.mark.parametrize("how", ["crash", "drain"])
@pytest.mark.parametrize("now", ["gone", "unsafe"])
async def test_a_keyed_call_that_was_cut_off_is_not_run_again_by_what_may_do_it_twice(how: str, now: str) -> None:
    shop = Shop()
    async with trail_of() as trail:
        await cut_off(trail, clerk(shop.pay()), shop, how)
        result = await trail.session("s").resume(clerk(*([] if now == "gone" else [shop.pay(UNSAFE)])))
        assert (result.status, shop.paid) == ("completed", 1)
        (told,) = await texts_of(trail)
        assert "the outcome of pay is unknown" in told
        assert ("there is no such tool now" if now == "gone" else "may not be repeated now") in told


async def test_a_parked_call_waits_for_a_person_also_where_its_tool_is_gone() -> None:
    shop = Shop()
    async with trail_of() as trail:
        await cut_off(trail, clerk(shop.pay(UNSAFE, OnUnknown.PARK)), shop, "crash")
        assert (await trail.session("s").resume(clerk())).status == "waiting"
        (asked,) = await trail.inbox()
        await trail.session("s").settle(asked.id, "completed", by="ana", result="paid, says the bank")
        assert (await trail.session("s").resume(clerk())).status == "completed"
        assert (await texts_of(trail), shop.paid) == (["paid, says the bank"], 1)


@pytest.mark.parametrize("now", ["gone", "another tool", "another subagent"])
async def test_a_session_below_whose_tool_is_gone_asks_nobody_any_more(now: str) -> None:
    shop = Shop()

    @tool(name="below", effect=KEYED)
    def plain(prompt: str) -> str:
        """Do it without a subagent."""
        return "done"

    spawn = SpawnSubagent({"below": shop.below()}, name="below")
    before = {"another subagent": spawn}.get(now, SubagentTool(shop.below(), name="below"))
    others = SpawnSubagent({"other": Subagent(agent=shop.below())}, name="below")
    after: dict[str, list[Any]] = {"gone": [], "another tool": [plain], "another subagent": [others]}
    first = call("below", prompt="go", **({"subagent": "below"} if now == "another subagent" else {}))
    async with trail_of() as trail:
        await trail.run(clerk(before, first=first), "go", session="s")
        (asked,) = await trail.inbox()
        result = await trail.session("s").resume(clerk(*after[now], first=first))
        assert (result.status, result.state.step_count) == ("completed", 2)
        assert (await trail.inbox(), await trail.due()) == ([], [])
        with pytest.raises(CommandRejected):
            await trail.session(asked.stream.removeprefix("agent:")).approve(asked.id, by="ana")
        assert shop.paid == 0
