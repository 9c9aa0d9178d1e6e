"""Calls that a person approves: nobody waits in a process, and what was approved runs exactly once."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, ErrorPolicy, HookType, ToolEffect, tool
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalExpired,
    ApprovalRequested,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.base import full_form
from steptrail.domain.errors import CommandRejected
from steptrail.domain.failures import ErrorType
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.usage import Usage
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool
from steptrail.workflow import FlowTool, Workflow
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, run, trail_of

WEEKEND = 2.5 * 86_400


def ignore(records: Sequence[Recorded[AgentEvent]]) -> None:
    """Let the clock stand still through a wait."""


class Bank:
    """The outside world: what has been paid."""

    def __init__(self, rule: ApprovalRule | bool = True, effect: ToolEffect = ToolEffect.UNSAFE) -> None:
        self.paid: list[int] = []

        @tool(approval=rule, effect=effect)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.pay = pay

    def agent(self, *script: Reply) -> Agent:
        said = script or (call("pay", cents=900), "Paid.")
        return AgentBuilder("bank").with_model(ScriptedModel(said)).with_tools(self.pay).build()


async def test_asked_on_friday_and_granted_on_monday_with_other_arguments_it_runs_those_once() -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        asked = await trail.run(agent, "Pay nine", session="s")
        assert asked.status == "waiting"
        assert bank.paid == []
        clock.advance(WEEKEND)

        monday = again_on(trail, clock).session("s")
        (approval,) = (await monday.state()).open_approvals
        answered = await monday.approve(approval.id, by="ana", arguments={"cents": 800}, reason="one off")
        assert (answered.status, bank.paid) == ("in_progress", [])
        done = await monday.resume(agent)
        assert (done.status, done.output, bank.paid) == ("completed", "Paid.", [800])
        assert done.state.elapsed_seconds < WEEKEND
        with pytest.raises(
            CommandRejected,
            match="granted it already, at 2027-01-17 20:00:00 UTC, and an approval is",
        ):
            await monday.approve(approval.id, by="ben")


async def test_without_an_answer_the_model_is_told_and_the_run_goes_on() -> None:
    bank, clock = Bank(ApprovalRule(expires=60)), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        assert await trail.due() == []
        clock.advance(61)
        assert [row.session_id for row in await trail.due()] == ["s"]
        session = trail.session("s")
        with pytest.raises(CommandRejected, match=r"it expired at .* UTC, which is a no"):
            await session.approve("s:1:1:0", by="ana")
        done = await session.resume(agent)
        assert (done.status, bank.paid) == ("completed", [])
        assert [type(each.event) for each in await session.events()].count(ApprovalExpired) == 1


async def test_a_short_expiry_keeps_no_process_either() -> None:
    bank = Bank(ApprovalRule(expires=5))
    waits = await run(bank.agent(), on_commit=ignore)
    assert waits.result.status == "waiting"


async def test_a_denial_reaches_the_model_and_not_the_error_policy() -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        await trail.session("s").deny("s:1:1:0", by="ana", reason="not this month")
        done = await trail.session("s").resume(agent)
        assert (done.status, done.stop_reason, bank.paid) == ("completed", "completed", [])
        (told,) = [part for message in done.state.messages if message.is_tool() for part in message.parts]
        assert full_form(told)["text"] == "This call was not run: ana denied it: not this month."


async def test_edited_arguments_that_the_tool_does_not_take_are_a_failed_call() -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        await trail.session("s").approve("s:1:1:0", by="ana", arguments={"cents": "nine"})
        done = await trail.session("s").resume(agent)
        assert (done.status, bank.paid) == ("failed", [])


@pytest.mark.parametrize(
    ("edited", "why"),
    [
        ({"euros": 9}, "its edited arguments do not fit pay: they lack cents"),
        ({"cents": 900, "euros": 9}, "its edited arguments do not fit pay: there is no parameter 'euros'"),
    ],
)
async def test_a_misspelt_edit_is_refused_and_the_question_stays_open(edited: dict[str, JsonValue], why: str) -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        session = trail.session("s")
        with pytest.raises(CommandRejected, match=why):
            await session.approve("s:1:1:0", by="ana", arguments=edited)
        await session.approve("s:1:1:0", by="ana", arguments={"cents": 800})
        done = await session.resume(agent)
        assert (done.status, bank.paid) == ("completed", [800])


@pytest.mark.parametrize(
    "cents", [float("nan"), float("inf"), 10**5000, "half \ud800", object()], ids=lambda cents: type(cents).__name__
)
async def test_an_edit_that_is_not_json_is_refused_and_the_question_stays_open(cents: object) -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        with pytest.raises(TypeError, match=r"at arguments.cents: .* has no JSON form"):
            await trail.session("s").approve("s:1:1:0", by="ana", arguments={"cents": cast(JsonValue, cents)})
        assert len((await trail.session("s").state()).open_approvals) == 1


async def test_of_two_people_who_answer_at_once_one_is_refused() -> None:
    bank, clock = Bank(), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        ana, ben = trail.session("s"), again_on(trail, clock).session("s")
        answers = await asyncio.gather(
            ana.approve("s:1:1:0", by="ana", arguments={"cents": 800}),
            ben.deny("s:1:1:0", by="ben"),
            return_exceptions=True,
        )
        (refusal,) = [each for each in answers if isinstance(each, BaseException)]
        assert isinstance(refusal, CommandRejected)
        assert "UTC, and an approval is answered once" in str(refusal)
        done = await ana.resume(agent)
        assert (done.status, bank.paid) == ("completed", [800] if refusal is answers[1] else [])


@pytest.mark.parametrize("expires", [0, -1, 1e10, float("inf"), float("nan")])
def test_a_deadline_that_is_none_or_no_date_is_refused(expires: float) -> None:
    with pytest.raises(ValueError, match="expires"):
        ApprovalRule(expires=expires)


async def test_a_hook_holds_what_it_finds_worth_asking_about() -> None:
    paid: list[int] = []

    @tool
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    def much(state: HookState) -> HookState | None:
        wanted = state.current_execution.tool_call
        arguments = wanted.arguments if wanted is not None and wanted.arguments is not None else {}
        return state.with_held_tool_call("more than 100", expires=60) if arguments["cents"] == 900 else None

    agent = (
        agent_of([calls(("pay", {"cents": 5}), ("pay", {"cents": 900}))], (HookType.PRE_TOOL_USE, hook("much", much)))
        .with_tools(pay)
        .build()
    )
    waits = await run(agent, on_commit=ignore)
    assert (waits.result.status, paid) == ("waiting", [5])
    asked = waits.one(ApprovalRequested)
    assert (asked.asked_by, asked.reason, asked.position) == ("much", "more than 100", 1)
    assert 'somebody to approve pay {"cents":900} (more than 100): approval s:1:1:1, expires' in (
        waits.why.waits_for or ""
    )


async def test_an_approved_call_that_a_crash_cut_off_is_not_asked_for_again() -> None:
    bank, clock = Bank(effect=ToolEffect.KEYED), HandClock()
    async with trail_of(clock) as trail:
        agent = bank.agent()
        await trail.run(agent, "Pay", session="s")
        await trail.session("s").approve("s:1:1:0", by="ana")
        dying = again_on(trail, clock, crash_at("after-tool"))
        with pytest.raises(Crash):
            await dying.session("s").resume(agent)
        done = await trail.session("s").resume(agent)
        events = [record.event for record in await trail.session("s").events()]
        assert done.status == "completed"
        assert bank.paid == [900, 900]
        starts = [event for event in events if isinstance(event, ToolExecutionStarted)]
        assert [(each.attempt, each.effect_id) for each in starts] == [(1, "s:1:1:0"), (2, "s:1:1:0")]
        assert sum(isinstance(event, ApprovalRequested) for event in events) == 1
        assert sum(isinstance(event, ToolExecutionInterrupted) for event in events) == 1


def patient(agent: Agent) -> Agent:
    """Return the agent with a policy that lets the model try again."""
    return replace(agent, error_policy=ErrorPolicy.retry_all())


@pytest.mark.parametrize("given", ['{"cents": "nine"}', '{"cent": 9}', "{}", "[9]", '{"cents": 9'])
async def test_nobody_is_asked_about_a_call_whose_arguments_do_not_fit_its_tool(given: str) -> None:
    bank, clock = Bank(), HandClock()
    made: dict[str, JsonValue] | None = json.loads(given) if given.endswith("}") else None
    wrong = ToolCallPart(id="c1", name="pay", arguments=made, raw=given if made is None else None)
    asks = ModelReply(parts=(wrong,), finish_reason=FinishReason.TOOL_CALLS, usage=Usage())
    async with trail_of(clock) as trail:
        agent = patient(bank.agent(asks, call("pay", cents=7), "Paid."))
        waits = await trail.run(agent, "Pay", session="s")
        state = await trail.session("s").state()
        (failed,) = state.steps[0].tool_executions
        assert failed.error is not None
        assert (failed.error.type, failed.approval, failed.attempt) == (ErrorType.VALIDATION, None, 0)
        (approval,) = state.open_approvals
        assert (waits.status, approval.id, bank.paid) == ("waiting", "s:1:2:0", [])
        await trail.session("s").approve(approval.id, by="ana")
        done = await trail.session("s").resume(agent)
        assert (done.status, done.output, bank.paid) == ("completed", "Paid.", [7])


async def test_of_several_calls_of_a_reply_people_are_asked_about_those_that_can_run() -> None:
    bank, clock = Bank(), HandClock()
    asked = calls(("pay", {"cents": 1}), ("pay", {"cents": "two"}), ("pay", {"cents": 3}))
    async with trail_of(clock) as trail:
        agent = patient(bank.agent(asked, "Paid."))
        await trail.run(agent, "Pay", session="s")
        assert [each.id for each in (await trail.session("s").state()).open_approvals] == ["s:1:1:0", "s:1:1:2"]
        for approval in ("s:1:1:0", "s:1:1:2"):
            await trail.session("s").approve(approval, by="ana")
        assert (await trail.session("s").resume(agent)).status == "completed"
    assert bank.paid == [1, 3]


async def test_a_call_that_a_hook_holds_fails_unasked_when_its_arguments_do_not_fit() -> None:
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        raise AssertionError(cents)

    def always(state: HookState) -> HookState:
        return state.with_held_tool_call("always", expires=60)

    agent = (
        agent_of([call("pay", cents="nine"), "No."], (HookType.PRE_TOOL_USE, hook("always", always)))
        .with_tools(pay)
        .build()
    )
    ran = await run(patient(agent), on_commit=ignore)
    assert (ran.result.status, ran.result.output) == ("completed", "No.")
    assert not [event for event in ran.events if isinstance(event, ApprovalRequested)]


class Ask(BaseModel):
    prompt: str


@pytest.mark.parametrize("in_a_workflow", [True, False])
async def test_nobody_is_asked_to_let_another_agent_begin_with_arguments_that_do_not_fit(in_a_workflow: bool) -> None:
    inner = AgentBuilder("inner").with_model(ScriptedModel(["Found."])).build()
    child = (
        FlowTool(Workflow("w").noop("a").build(), parameters=Ask, approval=True)
        if in_a_workflow
        else SubagentTool(inner, approval=True)
    )
    script: list[Reply] = [call(child.spec.name, prompts="?"), "No."]
    outer = AgentBuilder("outer").with_model(ScriptedModel(script)).with_tools(child).build()
    async with trail_of(HandClock()) as trail:
        done = await trail.run(patient(outer), "Go", session="s")
        (failed,) = done.state.steps[0].tool_executions
        assert (done.status, failed.approval) == ("completed", None)
        assert failed.error is not None
        assert failed.error.error_class.endswith(":InvalidArguments")
