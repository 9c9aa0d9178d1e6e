"""What people see of a reply with several questions, and what comes of it when processes die between the answers."""

from collections.abc import Sequence
from itertools import product

import pytest

from steptrail import AgentBuilder, HookType, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent, ApprovalRequested, ExecutionResumed, WaitEnded, WaitStarted
from steptrail.domain.errors import CommandRejected
from steptrail.domain.hooks.state import HookState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.faults import Reach
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool
from tests.runner.kit import Crash, HandClock, again_on, crash_at, hook, trail_of


class Shop:
    """The outside world: what was paid and shipped, in order. A call that comes again takes effect once."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
        def pay(cents: int, context: ToolContext) -> str:
            """Pay."""
            return self._take_effect(context, f"pay {cents}")

        @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=60))
        def ship(to: str, context: ToolContext) -> str:
            """Ship."""
            return self._take_effect(context, f"ship {to}")

        @tool
        def note(text: str, context: ToolContext) -> str:
            """Write something down."""
            return self._take_effect(context, f"note {text}")

        self._keys, self.tools = set[str](), (pay, ship, note)

    def _take_effect(self, context: ToolContext, what: str) -> str:
        if context.effect_id not in self._keys:
            self._keys.add(context.effect_id)
            self.done.append(what)
        return what

    def builder(self, *script: Reply) -> AgentBuilder:
        return AgentBuilder("shop").with_model(ScriptedModel(script)).with_tools(*self.tools)


def pays(count: int) -> Reply:
    return calls(*[("pay", {"cents": cents}) for cents in range(count)])


def ids(count: int) -> list[str]:
    return [f"s:1:1:{position}" for position in range(count)]


async def test_of_more_questions_than_are_read_at_once_all_can_be_answered_and_run() -> None:
    shop, count = Shop(), 501
    agent = shop.builder(pays(count), "Done.").build()
    async with trail_of() as trail:
        asked = await trail.run(agent, "pay", session="s")
        assert [approval.id for approval in asked.state.open_approvals] == ids(count)
        last = await trail.session("s").approve(ids(count)[-1], by="ana")
        assert [approval.id for approval in last.state.open_approvals] == ids(count)[:-1]


async def test_one_is_approved_one_denied_one_expires_and_what_may_run_runs_once_no_question_is_open() -> None:
    shop, clock = Shop(), HandClock()
    async with trail_of(clock) as trail:
        order = calls(("ship", {"to": "Rome"}), ("pay", {"cents": 1}), ("note", {"text": "n"}), ("pay", {"cents": 2}))
        agent = shop.builder(order, "Done.").build()
        asked = await trail.run(agent, "Order", session="s")
        assert [each.id for each in asked.state.open_approvals] == ["s:1:1:0", "s:1:1:1", "s:1:1:3"]
        assert [each.id for each in await trail.inbox()] == ["s:1:1:0", "s:1:1:1", "s:1:1:3"]
        session = again_on(trail, clock).session("s")
        await session.deny("s:1:1:3", by="ana")
        assert [each.id for each in await trail.inbox()] == ["s:1:1:0", "s:1:1:1"]
        clock.advance(61)
        assert [each.id for each in await trail.inbox()] == ["s:1:1:1"]
        assert (await trail.due(), shop.done) == ([], [])
        with pytest.raises(CommandRejected, match="it expired at"):
            await session.approve("s:1:1:0", by="ana")
        await session.approve("s:1:1:1", by="ben")
        assert (list(await trail.inbox()), [row.session_id for row in await trail.due()]) == ([], ["s"])
        done = await session.resume(agent)
        assert (done.output, shop.done) == ("Done.", ["pay 1", "note n"])
        assert [call.status.value for call in done.state.steps[0].tool_executions] == [
            "denied",
            "completed",
            "completed",
            "denied",
        ]


async def test_a_resume_or_a_message_between_two_answers_asks_nobody_again() -> None:
    shop, clock = Shop(), HandClock()
    async with trail_of(clock) as trail:
        agent = shop.builder(pays(2), "Both.", "And that.").build()
        await trail.run(agent, "Pay", session="s")
        session = trail.session("s")
        await session.approve("s:1:1:1", by="ana")
        assert (await session.resume(agent)).status == "waiting"
        said = await session.send(agent, "Hurry")
        assert (said.status, [each.id for each in said.state.open_approvals]) == ("waiting", ["s:1:1:0"])
        await session.pause(by="ana")
        await session.approve("s:1:1:0", by="ana")
        done = await session.resume(agent)
        assert (done.status, shop.done) == ("completed", ["pay 0", "pay 1"])
        events = [record.event for record in await session.events()]
        assert sum(isinstance(event, ApprovalRequested) for event in events) == 2
        assert sum(isinstance(event, WaitStarted) for event in events) == 1


async def test_a_stop_between_two_answers_runs_nothing_also_not_what_was_approved() -> None:
    shop = Shop()
    async with trail_of() as trail:
        await trail.run(shop.builder(pays(2)).build(), "Pay", session="s")
        session = trail.session("s")
        await session.approve("s:1:1:0", by="ana")
        stopped = await session.stop(by="ben")
        assert (stopped.status, stopped.stop_reason, shop.done) == ("completed", "user_requested", [])
        with pytest.raises(CommandRejected, match="its call is cancelled and needs no answer any more"):
            await session.approve("s:1:1:1", by="ana")


async def test_what_a_hook_holds_is_asked_beside_what_a_tool_declares() -> None:
    shop = Shop()

    def night(state: HookState) -> HookState | None:
        wanted = state.current_execution.tool_call
        return state.with_held_tool_call("at night") if wanted is not None and wanted.name == "note" else None

    async with trail_of() as trail:
        order = calls(("pay", {"cents": 1}), ("note", {"text": "n"}))
        agent = shop.builder(order, "Done.").with_hook(HookType.PRE_TOOL_USE, hook("night", night)).build()
        asked = await trail.run(agent, "go", session="s")
        assert [(each.tool, each.asked_by) for each in asked.state.open_approvals] == [
            ("pay", "pay"),
            ("note", "night"),
        ]


async def test_fifty_questions_are_one_wait_whichever_way_they_are_answered() -> None:
    shop = Shop()
    async with trail_of() as trail:
        agent = shop.builder(pays(50), "All.").build()
        await trail.run(agent, "Pay", session="s")
        session = trail.session("s")
        for number in reversed(ids(50)):
            await session.approve(number, by="ana")
        done = await session.resume(agent)
        assert (done.output, shop.done) == ("All.", [f"pay {cents}" for cents in range(50)])
        events = [record.event for record in await session.events()]
        found = [type(event) for event in events if isinstance(event, WaitStarted | WaitEnded | ExecutionResumed)]
        assert found == [WaitStarted, WaitEnded, ExecutionResumed]


async def test_the_questions_of_a_subagent_are_those_of_its_session_and_its_parent_goes_on_after_the_last() -> None:
    shop = Shop()
    async with trail_of() as trail:
        child = shop.builder(pays(2), "Paid both.").build()
        parent = (
            AgentBuilder("boss")
            .with_model(ScriptedModel([call("shop", prompt="pay"), "Done."]))
            .with_tools(SubagentTool(child))
            .build()
        )
        assert (await trail.run(parent, "go", session="s")).status == "waiting"
        first, second = await trail.inbox()
        assert first.stream == second.stream != "agent:s"
        below = trail.session(first.stream.removeprefix("agent:"))
        await below.approve(second.id, by="ana")
        assert await trail.due() == []
        await below.approve(first.id, by="ana")
        assert "s" in [row.session_id for row in await trail.due()]
        done = await trail.session("s").resume(parent)
        assert (done.output, shop.done) == ("Done.", ["pay 0", "pay 1"])


async def _do(process: Steptrail, agent: Agent, command: str) -> None:
    session, (what, *about) = process.session("s"), command.split()
    match what:
        case "run":
            await process.run(agent, "Pay", session="s")
        case "resume":
            await session.resume(agent)
        case _:
            answer = session.approve if what == "approve" else session.deny
            await answer(f"s:1:1:{about[0]}", by="ana", key=command)


COMMANDS = {"run": (2, 0), "approve 2": (1, 0), "deny 1": (1, 0), "approve 0": (1, 0), "resume": (5, 2)}
"""What is done, each with how many appends and tool calls it makes."""


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_process_that_dies_anywhere_between_the_first_question_and_the_last_call_changes_nothing(
    command: str,
) -> None:
    for point, times in zip(("append", "tool"), COMMANDS[command], strict=True):
        for when, number in product(("before", "after"), range(1, times + 2)):
            has_died = await _died(command, crash_at(f"{when}-{point}", number))
            assert has_died is (number <= times), (when, point, number)


async def _died(command: str, reach: Reach) -> bool:
    """Tell whether the process of a command died, which has then to come to the same as one that did not."""
    shop, clock, has_died = Shop(), HandClock(), False
    async with trail_of(clock) as trail:
        agent = shop.builder(pays(3), "Done.").build()
        for each in COMMANDS:
            if each == command:
                try:
                    await _do(again_on(trail, clock, reach), agent, each)
                except Crash:
                    has_died = True
            await _do(again_on(trail, clock), agent, each)
        state = await trail.session("s").state()
        assert (state.status, state.output, shop.done) == ("completed", "Done.", ["pay 0", "pay 2"])
        asked = [event for event in _events(await trail.session("s").events()) if isinstance(event, ApprovalRequested)]
        assert [each.approval_id for each in asked] == ids(3)
    return has_died


def _events(records: Sequence[Recorded[AgentEvent]]) -> list[AgentEvent]:
    return [record.event for record in records]


@pytest.mark.parametrize("demanded", ["the tool", "a hook"])
@pytest.mark.parametrize("limited", ["the tool", "the run"])
async def test_nobody_is_asked_about_a_call_that_is_one_too_many_whatever_is_answered(
    limited: str, demanded: str
) -> None:
    """A person would say yes to what is refused then, and the run would wait for days for nothing."""
    rule = ApprovalRule(expires=3600) if demanded == "the tool" else False

    @tool(effect=ToolEffect.KEYED, approval=rule, max_calls=1 if limited == "the tool" else None)
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    both = calls(("pay", {"cents": 2}), ("pay", {"cents": 3}))
    builder = AgentBuilder("shop").with_model(ScriptedModel([call("pay", cents=1), both, "Done."])).with_tools(pay)
    if demanded == "a hook":
        hold = hook("careful", lambda state: state.with_held_tool_call("money", expires=3600))
        builder.with_hook(HookType.PRE_TOOL_USE, hold)
    agent = builder.with_max_tool_calls(1 if limited == "the run" else None).build()
    async with trail_of() as trail:
        await trail.run(agent, "Pay", session="s")
        session = trail.session("s")
        await session.approve("s:1:1:0", by="ana")
        done = await session.resume(agent)
        assert (done.status, list(await trail.inbox())) == ("completed", [])
        asked = [each.event for each in await session.events() if isinstance(each.event, ApprovalRequested)]
    assert [each.approval_id for each in asked] == ["s:1:1:0"]
    assert [each.status for each in done.state.steps[1].tool_executions] == ["cancelled", "cancelled"]
    assert done.stop_reason == ("completed" if limited == "the tool" else "guard")


async def test_a_call_after_a_refused_one_is_asked_about() -> None:
    @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600), max_calls=1)
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
    def ship(to: str) -> str:
        """Ship."""
        return f"shipped to {to}"

    script = [call("pay", cents=1), calls(("pay", {"cents": 2}), ("ship", {"to": "Rome"})), "Done."]
    agent = AgentBuilder("shop").with_model(ScriptedModel(script)).with_tools(pay, ship).build()
    async with trail_of() as trail:
        await trail.run(agent, "Pay", session="s")
        session = trail.session("s")
        await session.approve("s:1:1:0", by="ana")
        waiting = await session.resume(agent)
        assert [(each.id, each.tool) for each in waiting.state.open_approvals] == [("s:1:2:1", "ship")]
        await session.approve("s:1:2:1", by="ana")
        done = await session.resume(agent)
    assert [each.status for each in done.state.steps[1].tool_executions] == ["cancelled", "completed"]
