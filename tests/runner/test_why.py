"""`why` names the smallest change that would have let a run go on; made, the same run really goes on."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import example, given, strategies as st

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, HookType, Limits, StepsLimit
from steptrail.continuation import CallableCriterion, ErrorPolicyCriterion, FinishReasonCheck
from steptrail.domain.inference import FinishReason
from steptrail.errors import ConfigurationError
from steptrail.hooks import ErrorPolicyHook, StepsLimitHook, TokenUsageLimitHook
from steptrail.models import PriceTable
from steptrail.testing import Reply, call, say
from tests.profile import examples
from tests.runner.kit import HandClock, Run, agent_of, run, slowly

WORK, FAILS = call("add", a=1, b=2), call("fail")
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
"""A reply of the script costs 20 microdollars."""
NO_PRICES = PriceTable.of({}, version="1")


async def told(limits: Limits, policy: ErrorPolicy, kinds: Sequence[str]) -> Run:
    """Run a script of steps, each of which takes the seconds, or fails the way, that its name says."""
    clock = HandClock()
    replies: dict[str, Reply] = {
        "work": WORK,
        "slow": slowly(clock, 4, WORK),
        "tool fails": FAILS,
        "model fails": ConnectionError("cut off"),
        "bad request": ConfigurationError("the model refuses such a request"),
        "answer": "done",
    }
    builder = agent_of([replies[kind] for kind in kinds]).with_limits(limits).with_error_policy(policy)
    return await run(builder.build(), clock=clock)


async def assert_the_advice_holds(limits: Limits, policy: ErrorPolicy, kinds: Sequence[str]) -> Run:
    before = await told(limits, policy, kinds)
    advice = before.why.advice
    assert advice is not None
    if advice.would_continue:
        assert advice.changes
        for change in advice.changes:
            limits, policy = change.apply(limits, policy)
        after = await told(limits, policy, kinds)
        # A call that was refused runs now, and that it fails nobody could know.
        fails_now = before.result.state.tool_calls_refused > 0 and after.result.state.steps[-1].has_errors
        assert fails_now or after.result.state.step_count > before.result.state.step_count
    return before


GENEROUS = Limits(max_tokens=None, timeout=None)


@pytest.mark.parametrize(
    ("limits", "policy", "kinds", "texts"),
    [
        (Limits(max_steps=0), ErrorPolicy(), ["answer"], ["max_steps=1 or more"]),
        (Limits(max_steps=2), ErrorPolicy(), ["work"] * 3, ["max_steps=3 or more"]),
        (Limits(max_tokens=15), ErrorPolicy(), ["work"] * 2, ["max_tokens=16 or more"]),
        (Limits(max_input_tokens=15), ErrorPolicy(), ["work"] * 3, ["max_input_tokens=21 or more"]),
        (Limits(max_output_tokens=10), ErrorPolicy(), ["work"] * 3, ["max_output_tokens=11 or more"]),
        (Limits(max_tool_calls=1), ErrorPolicy(), ["work"] * 3, ["max_tool_calls=2 or more"]),
        (
            Limits(max_cost=Decimal("0.00003"), prices=PRICES),
            ErrorPolicy(),
            ["work"] * 3,
            ["max_cost=0.000041 USD or more"],
        ),
        (
            Limits(max_cost=Decimal(1), prices=NO_PRICES),
            ErrorPolicy(),
            ["work"] * 3,
            ["prices for all that it could not price, or unpriced='warn'"],
        ),
        (
            Limits(max_cost=Decimal(0), prices=NO_PRICES),
            ErrorPolicy(),
            ["answer"],
            ["prices for all that it could not price, or unpriced='warn', and max_cost=0.000001 USD or more"],
        ),
        (Limits(timeout=6), ErrorPolicy(), ["slow"] * 3, ["timeout=9 seconds or more"]),
        (
            Limits(timeout=None, cumulative_timeout=6),
            ErrorPolicy(),
            ["slow"] * 3,
            ["cumulative_timeout=9 seconds or more"],
        ),
        (
            Limits(finish_reasons=(FinishReason.TOOL_CALLS, FinishReason.ERROR)),
            ErrorPolicy(),
            ["work", "answer"],
            ["finish reasons without 'tool_calls'"],
        ),
        (
            Limits(max_steps=1, max_tokens=15),
            ErrorPolicy(),
            ["work"] * 2,
            ["max_steps=2 or more", "max_tokens=16 or more"],
        ),
        (
            Limits(),
            ErrorPolicy(),
            ["tool fails", "answer"],
            ["an error policy that retries tool errors with max_retries=2 or more"],
        ),
        (
            Limits(),
            ErrorPolicy.retry_all(2),
            ["model fails", "model fails", "answer"],
            ["an error policy that retries model errors with max_retries=3 or more"],
        ),
        (
            Limits(),
            ErrorPolicy.retry_all(2),
            ["bad request", "answer"],
            ["the cause of the error put right, or an error policy that ignores model errors"],
        ),
        (
            Limits(max_steps=1),
            ErrorPolicy(),
            ["tool fails", "answer"],
            ["an error policy that retries tool errors with max_retries=2 or more", "max_steps=2 or more"],
        ),
    ],
)
async def test_the_change_lets_the_run_go_on(
    limits: Limits, policy: ErrorPolicy, kinds: list[str], texts: list[str]
) -> None:
    before = await assert_the_advice_holds(limits, policy, kinds)
    assert before.why.advice is not None
    assert [change.text for change in before.why.advice.changes] == texts
    assert before.why.advice.would_continue
    assert before.why.to_dict()["continuesWith"] == texts


policies = st.sampled_from(
    [
        ErrorPolicy.stop_on_any_error(),
        ErrorPolicy.retry_tool_errors(1),
        ErrorPolicy.retry_all(2),
        ErrorPolicy.ignore_tool_errors(),
    ]
)
all_limits = st.builds(
    Limits,
    max_steps=st.integers(0, 4),
    max_tokens=st.none() | st.integers(0, 70),
    timeout=st.none() | st.integers(1, 14),
    cumulative_timeout=st.none() | st.integers(1, 14),
    finish_reasons=st.sampled_from([(), (FinishReason.TOOL_CALLS,), (FinishReason.STOP,)]),
    max_input_tokens=st.none() | st.integers(0, 45),
    max_output_tokens=st.none() | st.integers(0, 25),
    max_tool_calls=st.none() | st.integers(0, 3),
    prices=st.sampled_from([PRICES, PRICES, NO_PRICES]),
    max_cost=st.none() | st.integers(0, 90).map(lambda micros: Decimal(micros).scaleb(-6)),
    unpriced=st.sampled_from(["fail_closed", "warn", "ignore"]),
    shadow=st.lists(st.sampled_from(["max_steps", "max_cost", "max_tokens", "max_tool_calls"]), max_size=2).map(tuple),
)
scripts = st.lists(st.sampled_from(["work", "slow", "tool fails", "model fails", "bad request", "answer"]), max_size=5)


@example(
    Limits(max_steps=0, max_tokens=None, timeout=None, max_tool_calls=0, shadow=("max_steps",)),
    ErrorPolicy.stop_on_any_error(),
    ["tool fails"],
)
@given(limits=all_limits, policy=policies, kinds=scripts)
@examples(120)
async def test_whatever_stopped_a_run_the_advice_holds(limits: Limits, policy: ErrorPolicy, kinds: list[str]) -> None:
    before = await assert_the_advice_holds(limits, policy, [*kinds, "answer", "answer"])
    assert before.why.advice is not None
    # Nothing to change means that the work was done.
    if not before.why.advice.changes:
        assert before.ending == ("completed", "completed")


async def test_a_refused_call_that_fails_when_it_may_run_is_no_broken_promise() -> None:
    before = await assert_the_advice_holds(
        Limits(max_steps=1, max_tool_calls=0), ErrorPolicy(), ["tool fails", "answer"]
    )
    assert before.why.advice is not None
    assert [change.text for change in before.why.advice.changes] == ["max_steps=2 or more", "max_tool_calls=1 or more"]


async def test_a_limit_that_was_reached_with_the_answer_promises_nothing() -> None:
    ran = await told(Limits(max_steps=1), ErrorPolicy(), ["answer"])
    assert ran.ending == ("completed", "steps_limit")
    assert ran.why.advice is not None
    assert not ran.why.advice.would_continue


async def test_a_finished_answer_needs_no_advice() -> None:
    ran = await told(GENEROUS, ErrorPolicy(), ["answer"])
    assert ran.why.advice is not None
    assert (ran.why.advice.changes, ran.why.advice.would_continue) == ((), False)
    assert ran.why.verdict == "completed, stopped after 1 step (completed): no criterion asked for another step"


@pytest.mark.parametrize(
    "builder",
    [
        agent_of([WORK] * 4).with_criteria(StepsLimit(2)),
        agent_of([WORK] * 4).with_max_steps(None).with_criteria(StepsLimit(2)),
        agent_of([WORK] * 4).with_criteria(FinishReasonCheck(["tool_calls"])),
        agent_of([WORK] * 4).with_criteria(ContinuationCriteria(StepsLimit(2), name="budget")),
        agent_of([WORK] * 4).with_criteria(CallableCriterion(lambda s: s.step_count < 2, name="two")),
        agent_of([FAILS] * 4)
        .with_error_policy(ErrorPolicy.retry_all(9))
        .with_criteria(ErrorPolicyCriterion.with_policy(ErrorPolicy.retry_all(2))),
        agent_of([WORK] * 4).with_hook(HookType.BEFORE_STEP, StepsLimitHook(2)),
        agent_of([WORK] * 4).with_hook(HookType.BEFORE_STEP, TokenUsageLimitHook(20)),
        agent_of([FAILS] * 4)
        .with_error_policy(ErrorPolicy.retry_all(9))
        .with_hook(HookType.ON_ERROR, ErrorPolicyHook(ErrorPolicy.retry_all(2))),
        agent_of([say("half", finish_reason=FinishReason.LENGTH)]),
    ],
)
async def test_what_no_setting_turns_around_is_not_promised_away(builder: AgentBuilder) -> None:
    """A limit of the service's own is not moved by the settings, whatever its name."""
    ran = await run(builder.build())
    advice = ran.why.advice
    assert advice is not None
    assert advice.changes == ()
    assert len(advice.stubborn) == 1
    assert not advice.would_continue
