"""A what-if says of a recorded run what the run with other settings really does, or that it does not know."""

import asyncio
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType, Limits, Steptrail, ToolContext, ToolEffect, tool
from steptrail.audit import WhatIf, WhatIfAnswer, WhatIfRow
from steptrail.continuation import CallableCriterion, ContinuationDecision
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import StopReason
from steptrail.errors import ConfigurationError, SessionNotFound
from steptrail.models import PriceTable
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool
from tests.profile import examples
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, slowly, trail_of, vote

SAME, EARLIER, UNKNOWN = WhatIfAnswer
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
"""A reply of the script costs 20 microdollars."""
FREE = Limits(max_steps=None, max_tokens=None, timeout=None, prices=PRICES, max_concurrent_tools=1)
KINDS = ("work", "more", "tool fails", "model fails", "answer")


def scripted(limits: Limits, policy: ErrorPolicy, kinds: Sequence[str], clock: HandClock) -> Agent[Any]:
    replies: dict[str, Reply] = {
        "work": call("add", a=1, b=2),
        "more": calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})),
        "slow": slowly(clock, 4, call("add", a=1, b=2)),
        "tool fails": call("fail"),
        "model fails": ConnectionError("cut off"),
        "answer": "done",
    }
    builder = agent_of([]).with_model(ScriptedModel([*(replies[kind] for kind in kinds), "done"]))
    return builder.with_limits(limits).with_error_policy(policy).build()


async def asked(
    before: tuple[Limits, ErrorPolicy], after: tuple[Limits, ErrorPolicy], kinds: Sequence[str]
) -> tuple[WhatIfRow, Any, Any]:
    """Return the answer, the result of the recorded run, and that of the run with the other settings."""
    results: list[Any] = []
    row: WhatIfRow | None = None
    for limits, policy in (before, after):
        clock = HandClock()
        async with trail_of(clock) as trail:
            agent = scripted(limits, policy, kinds, clock)
            results.append(await trail.run(agent, "go", session="s", on_commit=clock.sit_out))
            if row is None:
                (row,) = (await trail.what_if("s", limits=after[0], error_policy=after[1])).rows
    assert row is not None
    return row, results[0], results[1]


def limited(**settings: Any) -> Limits:
    return structs.replace(FREE, **settings)


LIMITS = st.builds(
    limited,
    max_steps=st.none() | st.integers(0, 5),
    max_tokens=st.none() | st.integers(0, 80),
    max_cost=st.none() | st.integers(0, 100).map(lambda micro: Decimal(micro) / 1_000_000),
    max_tool_calls=st.none() | st.integers(0, 5),
    finish_reasons=st.sampled_from(((), (FinishReason.TOOL_CALLS,))),
    shadow=st.sets(st.sampled_from(("max_steps", "max_tool_calls"))).map(tuple),
)
POLICIES = st.sampled_from(
    (
        ErrorPolicy.stop_on_any_error(),
        ErrorPolicy.retry_all(2),
        ErrorPolicy.retry_all(4),
        ErrorPolicy.retry_tool_errors(3),
        ErrorPolicy.ignore_tool_errors(),
    )
)


@given(
    LIMITS,
    POLICIES,
    LIMITS,
    POLICIES,
    st.lists(st.sampled_from(KINDS), max_size=6),
)
@examples(60)
async def test_an_answer_is_the_run_with_the_other_settings(
    limits: Limits, policy: ErrorPolicy, other: Limits, other_policy: ErrorPolicy, kinds: Sequence[str]
) -> None:
    row, before, after = await asked((limits, policy), (other, other_policy), kinds)
    ending = (after.status, after.stop_reason, after.state.answered)
    if row.answer is SAME:
        assert row.would_stop == after.stop_reason
        assert after.state.step_count == before.state.step_count
    elif row.answer is EARLIER:
        assert (row.step, row.would_stop) == (after.state.step_count, after.stop_reason), ending
        assert row.vote == after.outcome.deciding_vote
        used = before.state.usage.total - after.state.usage.total
        assert row.saved.tokens == used
        assert row.is_wrong == (before.state.answered and not after.state.answered)
    if (limits, policy) == (other, other_policy):
        assert row.answer is SAME


WORKING = call("add", a=1, b=2)
WORK: Reply = WORKING
DONE: Reply = "done"


async def ask(
    builder: AgentBuilder,
    limits: Mapping[str, object] | None = None,
    *,
    clock: HandClock | None = None,
    **settings: Any,
) -> WhatIfRow:
    """Record a run, and ask of it what other settings would have changed."""
    clock = clock or HandClock()
    async with trail_of(clock) as trail:
        await trail.run(builder.build(), "go", session="s", on_commit=clock.sit_out)
        (row,) = (await trail.what_if("s", limits=limits, **settings)).rows
        return row


@pytest.mark.acceptance("10.5-1")
async def test_a_stop_that_comes_earlier_is_exact_and_wrong_if_an_answer_came_later() -> None:
    clock = HandClock()
    script = [slowly(clock, 2, WORKING), slowly(clock, 3, WORKING), slowly(clock, 4, "done")]
    limits = Limits(prices=PRICES, max_cost=Decimal(1))
    async with trail_of(clock) as trail:
        await trail.run(agent_of(script).with_limits(limits).build(), "go", session="s")
        found = await trail.what_if(limits={"max_cost": "0.00003"})
        (row,) = found.rows
        decided = [
            record for record in await trail.session("s").events() if record.event.TYPE.startswith("continuation")
        ]
    assert (row.answer, row.step, row.would_stop, row.is_wrong) == (
        EARLIER,
        2,
        StopReason.GUARD,
        True,
    )
    assert row.why == "CostLimit: Cost limit reached: 0.00004/0.00003 USD"
    assert row.version == decided[2].version
    saved = {"steps": 1, "tokens": 15, "activeSeconds": 4.0, "cost": "0.00002"}
    assert (row.saved.to_dict(), found.saved.to_dict(), found.wrong) == (saved, saved, 1)


@pytest.mark.acceptance("10.5-2")
async def test_where_a_run_would_have_gone_on_nothing_is_guessed_and_a_fork_or_a_retry_tells() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        agent = agent_of([WORK, WORK, DONE]).with_max_steps(2).build()
        await trail.run(agent, "go", session="s")
        (row,) = (await trail.what_if("s", limits={"max_steps": 20})).rows
        assert (row.answer, row.would_stop, row.saved.steps) == (UNKNOWN, None, 0)
        assert (row.why, row.can_be_retried) == ("it would have gone on after step 2, where it ended", True)
        forked = await trail.session("s").fork(at=row.fork_at)
        result = await forked.resume(agent, limits=Limits(max_steps=20))
        assert (result.output, result.state.step_count) == (DONE, 3)
        (of_fork,) = (await trail.what_if(forked.session_id, limits={"max_steps": 2})).rows
        assert (of_fork.answer, of_fork.step, of_fork.is_wrong) == (EARLIER, 2, True)
        (in_the_past,) = (await trail.what_if(forked.session_id, limits={"max_steps": 1})).rows
        assert (in_the_past.step, in_the_past.version) == (1, 1)  # of its own events: the past has other numbers
        await trail.session("s").retry(agent, limits=Limits(max_steps=20))
        rows = (await trail.what_if("s", limits={"max_steps": 21})).rows
        assert [(row.answer, row.can_be_retried) for row in rows] == [(UNKNOWN, False), (UNKNOWN, False)]


async def test_another_ending_at_the_same_place_is_said() -> None:
    row = await ask(agent_of([WORK, DONE]), {"max_steps": 2})
    assert (row.answer, row.would_stop, row.saved.steps) == (SAME, StopReason.STEPS_LIMIT, 0)
    assert row.why == "it ends there completed (steps_limit), and not completed (completed)"


async def test_a_policy_that_would_have_retried_makes_it_unknown_and_so_does_another_delay() -> None:
    row = await ask(agent_of([call("fail"), DONE]), error_policy=ErrorPolicy.retry_all(3))
    assert (row.answer, row.why) == (UNKNOWN, "it would have gone on after step 1, where it ended")
    retried = agent_of([call("fail"), WORK, DONE]).with_error_policy(ErrorPolicy.retry_all(3))
    assert (await ask(retried, error_policy=ErrorPolicy.ignore_tool_errors())).answer is SAME
    row = await ask(retried, error_policy=ErrorPolicy.stop_on_any_error())
    assert (row.answer, row.step, row.would_stop) == (EARLIER, 1, StopReason.ERROR)
    row = await ask(retried, error_policy=ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(2)))
    assert row.why == "the next try would have come after 2 s, and not after 0 s"
    waits = agent_of([call("fail"), WORK, DONE])
    waits.with_error_policy(ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(2)))
    assert (await ask(waits, {"timeout": 1.5})).step == 1
    row = await ask(waits, error_policy=ErrorPolicy.ignore_tool_errors())
    assert row.why == "the next try would have come after 0 s, and not after 2 s"


@pytest.mark.parametrize("setting", ["timeout", "cumulative_timeout"])
async def test_a_shorter_time_cuts_the_call_in_which_it_is_over(setting: str) -> None:
    clock = HandClock()
    script: list[Reply] = [slowly(clock, 2, WORKING), slowly(clock, 3, WORKING), DONE]
    row = await ask(agent_of(script), {setting: 4.0}, clock=clock)
    assert (row.answer, row.step, row.would_stop, row.is_wrong) == (
        EARLIER,
        2,
        StopReason.TIME_LIMIT,
        True,
    )
    assert (row.saved.tokens, row.saved.active_seconds) == (30, 1.0)  # the reply would not have come

    @tool(effect=ToolEffect.READ)
    def slow() -> str:
        clock.advance(3)
        return "at last"

    row = await ask(agent_of([call("slow"), DONE]).with_tools(slow), {setting: 1.0}, clock=clock)
    assert (row.step, row.would_stop, row.saved.steps) == (1, StopReason.TIME_LIMIT, 1)


class Patient:
    """A model that never answers."""

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="scripted", model="patient")

    async def infer(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(60)
        raise AssertionError

    async def close(self) -> None:
        pass


async def test_a_longer_time_makes_unknown_what_was_cut_off() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        agent = AgentBuilder("a").with_model(Patient()).with_timeout(0.02).build()
        await trail.run(agent, "go", session="s")
        (row,) = (await trail.what_if(limits={"timeout": 5.0})).rows
        assert row.why == "the call would have gone on, which was cut off at the end of the run's time"
        (row,) = (await trail.what_if(limits={"timeout": 0.01})).rows
        assert (row.answer, row.step, row.would_stop) == (EARLIER, 1, StopReason.TIME_LIMIT)


async def test_a_process_that_died_later_would_have_cut_the_call_off_before() -> None:
    clock = HandClock()
    trail = trail_of(clock, crash_at("after-append", 2))
    agent = agent_of([slowly(clock, 5, WORKING), DONE]).build()
    with pytest.raises(Crash):
        await trail.run(agent, "go", session="s")
    async with again_on(trail, clock) as again:
        await again.session("s").resume(agent)
        assert (await again.what_if("s", limits={"cumulative_timeout": 100.0})).rows[0].answer is SAME
        (row,) = (await again.what_if("s", limits={"cumulative_timeout": 4.0})).rows
        assert (row.answer, row.step) == (EARLIER, 1)


async def test_calls_beyond_a_lower_limit_are_refused_and_those_that_were_refused_are_unknown() -> None:
    more = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))
    row = await ask(agent_of([WORK, more, DONE]), {"max_tool_calls": 2})
    assert (row.step, row.would_stop, row.vote and row.vote.context["refusedToolCalls"]) == (2, StopReason.GUARD, 1)
    row = await ask(agent_of([more, DONE]).with_max_tool_calls(1), {"max_tool_calls": 2})
    assert row.why == "the call of add would have run, which was beyond the limit"


async def test_a_refused_call_is_not_waited_for() -> None:
    """The run would have ended there, whatever a person said later about the call, or about the run."""

    @tool(approval=ApprovalRule(reason="moves money"))
    def wire() -> str:
        return "sent"

    agent = agent_of([WORK, call("wire"), DONE]).with_tools(wire).build()
    async with trail_of() as trail:
        session = trail.session("s")
        await trail.run(agent, "go", session="s")
        (open_,) = (await trail.what_if(limits={"max_tool_calls": 1})).rows
        await session.stop(by="ana")
        (stopped,) = (await trail.what_if(limits={"max_tool_calls": 1})).rows
        for row in (open_, stopped):
            assert (row.answer, row.step, row.would_stop) == (EARLIER, 2, StopReason.GUARD)
        (same,) = (await trail.what_if(limits={"max_tool_calls": 2})).rows
        assert (same.answer, same.would_stop) == (SAME, StopReason.USER_REQUESTED)


async def test_a_later_execution_of_a_session_is_unknown_where_one_before_is_not_the_same() -> None:
    async with trail_of() as trail:
        session, agent = trail.session("s"), agent_of([DONE, WORK, WORK, DONE, DONE]).build()
        await trail.run(agent, "go", session="s")
        for text in ("more", "and more"):
            await session.send(agent, text)
        answers = [(row.execution_id, row.answer) for row in (await trail.what_if(limits={"max_steps": 2})).rows]
        assert answers == [
            ("s:3", UNKNOWN),
            ("s:2", EARLIER),
            ("s:1", SAME),
        ]


async def test_criteria_that_are_not_here_vote_as_they_did_and_those_of_an_agent_are_asked() -> None:
    def until(steps: int) -> CallableCriterion:
        return CallableCriterion(lambda state: state.step_count < steps, name="enough")

    script: list[Reply] = [WORK, WORK, WORK, DONE]
    recorded = agent_of(script).with_criteria(until(3))
    assert (await ask(recorded, {"max_steps": 10})).answer is SAME
    row = await ask(recorded, {"max_steps": 2})
    assert (row.step, row.would_stop) == (2, StopReason.STEPS_LIMIT)
    row = await ask(recorded, like=agent_of([]).with_criteria(until(1)).build())
    assert (row.step, row.vote and row.vote.criterion_class) == (1, "enough")
    row = await ask(recorded, like=agent_of([]).build())
    assert row.why == "it would have gone on after step 3, where it ended"

    def broken(_: object) -> bool:
        raise RuntimeError("no idea")

    row = await ask(recorded, like=agent_of([]).with_criteria(CallableCriterion(broken)).build())
    assert (row.step, row.would_stop) == (0, StopReason.ERROR)


async def test_code_that_looks_at_the_limits_makes_the_rest_unknown() -> None:
    def near(state: Any) -> bool:
        return bool(state.step_count < state.agent.limits.max_steps)

    row = await ask(agent_of([WORK, DONE]).with_criteria(CallableCriterion(near)), {"max_steps": 10})
    assert (row.answer, row.version) == (UNKNOWN, 3)
    assert row.why == "a criterion of its own looked at the limits or the policy: give the agent"
    looking = hook("looking", lambda state: state if state.agent else None)
    row = await ask(agent_of([WORK, DONE], (HookType.AFTER_STEP, looking)), {"max_steps": 10})
    assert row.why == "the hook looking looked at the limits or the policy"

    @tool(effect=ToolEffect.READ)
    def told(context: ToolContext) -> str:
        return context.effect_id

    builder = agent_of([call("told"), DONE]).with_tools(told)
    row = await ask(builder, {"max_steps": 10})
    assert row.why == "the tool told gets a context, in which it could look at the limits"
    assert (await ask(builder, {"max_steps": 10}, trust_tools=True)).answer is SAME


async def test_a_stop_hook_that_kept_the_run_going_cannot_where_a_limit_forbids() -> None:
    again = vote(ContinuationDecision.REQUEST, "again")
    once = hook("once", lambda state: state if state.step_count > 1 else state.with_evaluation(again))
    row = await ask(agent_of([DONE, DONE], (HookType.STOP, once)), {"max_steps": 1})
    assert (row.answer, row.step, row.would_stop) == (EARLIER, 1, StopReason.STEPS_LIMIT)
    assert not row.is_wrong  # the first one was an answer


async def test_a_limit_that_was_in_shadow_stops_where_it_is_named() -> None:
    builder = agent_of([WORK, WORK, DONE]).with_max_steps(1, shadow=True)
    assert (await ask(builder, {"max_tokens": 1_000})).answer is SAME
    assert (await ask(builder, {"max_steps": 1})).step == 1
    assert (await ask(builder, {"shadow": ()})).step == 1


async def test_what_cannot_be_asked_of_a_run_is_said_in_its_row() -> None:
    row = await ask(agent_of([DONE]), {"max_cost": 1})
    assert (row.answer, row.fork_at) == (UNKNOWN, None)
    assert "a limit on cost needs `prices`" in row.why
    async with trail_of() as trail:
        await trail.start(agent_of([DONE]).build(), "later", session="s")
        (row,) = (await trail.what_if(limits={"max_steps": 1})).rows
        assert (row.answer, row.why) == (UNKNOWN, "it is pending, and what comes is not recorded")
        await trail.run(agent_of([DONE]).build(), "go", session="gone")
        await trail.erase("gone", by="ana", reason="asked")
        rows = (await trail.what_if(limits={"max_steps": 1})).rows
        assert [(row.session_id, row.why) for row in rows if row.session_id != "s"] == [("gone", "it was erased")]
        (row,) = (await trail.what_if("gone", limits={"max_steps": 1})).rows
        assert "gone was erased by ana" in row.why.replace("'", "")


async def test_a_question_that_cannot_be_meant_is_refused() -> None:
    async with trail_of() as trail:
        refused: Sequence[tuple[dict[str, Any], str]] = (
            ({}, "a what-if needs another setting"),
            ({"limits": {}}, "a what-if needs another setting"),
            ({"limits": {"max_step": 1}}, "'max_step' ends no run"),
            ({"limits": {"max_result_characters": 1}}, "'max_result_characters' ends no run"),
            ({"limits": {"max_steps": -1}}, "max_steps"),
            ({"limits": 20}, "are a mapping"),
            ({"error_policy": "retry"}, "error_policy"),
            ({"like": agent_of([])}, "is an Agent, not AgentBuilder"),
        )
        for wrong, saying in refused:
            with pytest.raises(ConfigurationError, match=saying):
                await trail.what_if(**wrong)
        with pytest.raises(ConfigurationError, match="workflow"):
            await trail.what_if("flow:x", limits={"max_steps": 1})
        with pytest.raises(ConfigurationError, match="by their names, or"):
            await trail.what_if("s", agent="calc", limits={"max_steps": 1})
        with pytest.raises(SessionNotFound):
            await trail.what_if("s", limits={"max_steps": 1})


async def test_a_subagent_is_an_execution_of_its_own() -> None:
    below = agent_of([WORK, WORK, DONE]).build()
    async with trail_of() as trail:
        above = AgentBuilder("above").with_model(ScriptedModel([call("calc", prompt="go"), DONE]))
        await trail.run(above.with_tools(SubagentTool(below)).build(), "go", session="s")
        rows = (await trail.what_if(limits={"max_steps": 2})).rows
        assert {row.agent: row.answer for row in rows} == {
            "above": SAME,
            "calc": EARLIER,
        }
        rows = (await trail.what_if(agent="above", limits={"max_tokens": 20})).rows
        assert [(row.step, row.saved.tokens) for row in rows] == [(1, 15)]  # the tokens below it are its own


def test_the_blocking_twin_asks_the_same() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        trail.run(agent_of([WORK, DONE]).build(), "go", session="s")
        found: WhatIf = trail.what_if(limits={"max_steps": 1})
        assert found.to_dict()["stopsEarlier"] == 1
