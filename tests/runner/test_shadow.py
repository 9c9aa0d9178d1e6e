"""A limit in shadow changes nothing but the votes: not one call, one deadline, one decision."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail import AgentBuilder, ErrorPolicy, HookType, Limits, StepsLimit
from steptrail.continuation import ContinuationDecision, Shadow
from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded, ExecutionStarted
from steptrail.domain.continuation.limits import LimitName
from steptrail.domain.inference import FinishReason, ModelRequest, no_file
from steptrail.errors import ConfigurationError
from steptrail.hooks import CriterionHook
from steptrail.models import PriceTable
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.profile import examples
from tests.runner.kit import HandClock, Run, agent_of, run, slowly

IN_A_RUN: tuple[LimitName, ...] = tuple(name for name in get_args(LimitName) if name != "max_unproductive_segments")
"""Every limit that a run without a crash can meet."""
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
NONE = Limits(max_steps=None, max_tokens=None, timeout=None)
WORK = call("add", a=1, b=2)
BROKEN = Limits(
    max_steps=0,
    max_tokens=0,
    max_input_tokens=0,
    max_output_tokens=0,
    prices=PRICES,
    max_cost=Decimal(0),
    max_tool_calls=0,
    timeout=0.5,
    cumulative_timeout=0.5,
    finish_reasons=(FinishReason.TOOL_CALLS,),
)
"""Values that are reached at once."""


async def ran_with(limits: Limits, kinds: Sequence[str]) -> tuple[Run, Sequence[ModelRequest]]:
    clock = HandClock()
    replies: dict[str, Reply] = {
        "work": WORK,
        "more": calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})),
        "slow": slowly(clock, 4, WORK),
        "tool fails": call("fail"),
        "model fails": ConnectionError("cut off"),
        "answer": "done",
    }
    model = ScriptedModel([replies[kind] for kind in kinds])
    # Which of two calls side by side ends first is left to the threads.
    one_by_one = structs.replace(limits, max_concurrent_tools=1)
    builder = agent_of([]).with_model(model).with_limits(one_by_one).with_error_policy(ErrorPolicy.retry_all(2))
    ran = await run(builder.build(), clock=clock)
    # Each run has a store of its own, from which its requests read files.
    return ran, [structs.replace(request, read=no_file) for request in model.requests]


def without_shadows(event: AgentEvent) -> AgentEvent:
    match event:
        case EvaluationsRecorded(votes=votes):
            return structs.replace(event, votes=tuple(vote for vote in votes if vote.shadow is None))
        case ExecutionStarted(agent=agent):
            plain = structs.replace(agent, limits=NONE, fingerprint="")
            return structs.replace(event, agent=plain)
        case _:
            # What it has cost is told wherever there are prices, and each run draws numbers of its own.
            own = {"cost": None, "draw": 0.0}
            return structs.replace(event, **{each: own[each] for each in own.keys() & set(event.__struct_fields__)})


async def assert_it_ran_as_without_limits(limits: Limits, kinds: Sequence[str]) -> Run:
    (shadowed, asked), (free, asked_free) = await ran_with(limits, kinds), await ran_with(NONE, kinds)
    assert [without_shadows(event) for event in shadowed.events] == [without_shadows(event) for event in free.events]
    assert list(map(repr, asked)) == list(map(repr, asked_free))
    return shadowed


settings_of_limits = st.builds(
    Limits,
    max_steps=st.none() | st.integers(0, 4),
    max_tokens=st.none() | st.integers(0, 70),
    timeout=st.none() | st.integers(1, 14),
    cumulative_timeout=st.none() | st.integers(1, 14),
    finish_reasons=st.sampled_from([(), (FinishReason.TOOL_CALLS,), (FinishReason.STOP,)]),
    max_input_tokens=st.none() | st.integers(0, 45),
    max_output_tokens=st.none() | st.integers(0, 25),
    max_tool_calls=st.none() | st.integers(0, 3),
    prices=st.just(PRICES),
    max_cost=st.none() | st.integers(0, 90).map(lambda micros: Decimal(micros).scaleb(-6)),
    shadow=st.just(IN_A_RUN),
)
scripts = st.lists(st.sampled_from(["work", "more", "slow", "tool fails", "model fails", "answer"]), max_size=5)


@given(limits=settings_of_limits, kinds=scripts)
@examples(80)
async def test_limits_in_shadow_change_nothing_but_the_votes(limits: Limits, kinds: list[str]) -> None:
    await assert_it_ran_as_without_limits(limits, [*kinds, "answer", "answer"])


async def test_every_limit_in_shadow_says_where_it_would_have_stopped_the_run_first() -> None:
    shadowed = structs.replace(BROKEN, shadow=IN_A_RUN)
    ran = await assert_it_ran_as_without_limits(shadowed, ["slow", "more", "answer"])
    assert ran.ending == ("completed", "completed")
    assert {(stop.vote.criterion_class, stop.step) for stop in ran.why.shadow_stops} == {
        ("StepsLimit", 0),
        ("TokenUsageLimit", 0),
        ("InputTokenLimit", 0),
        ("OutputTokenLimit", 0),
        ("CostLimit", 0),
        ("ToolCallLimit", 1),
        ("ExecutionTimeLimit", 1),
        ("CumulativeExecutionTimeLimit", 1),
        ("FinishReasonCheck", 1),
    }
    told = ran.why.to_dict()["shadowStops"]
    assert isinstance(told, list)
    assert len(told) == 9
    steps = next(stop for stop in ran.why.shadow_stops if stop.vote.criterion_class == "StepsLimit")
    assert steps.vote.reason == "Step limit reached: 0/0 (shadow)"
    assert isinstance(ran.records[steps.version - 1].event, EvaluationsRecorded)


@pytest.mark.parametrize("name", IN_A_RUN)
async def test_any_one_limit_can_be_in_shadow_while_the_others_hold(name: LimitName) -> None:
    value = getattr(BROKEN, name)
    held = structs.replace(NONE, **{"prices": PRICES, name: value})
    kinds = ["slow", "more", "answer"]
    stopped, _ = await ran_with(held, kinds)
    assert stopped.ending[1] != "completed"
    assert not stopped.why.shadow_stops
    shadowed, _ = await ran_with(structs.replace(held, shadow=(name,)), kinds)
    assert shadowed.ending == ("completed", "completed")
    (stop,) = shadowed.why.shadow_stops
    assert stop.vote.context["shadowStopReason"] == stopped.ending[1]
    assert stopped.why.decided_by is not None
    assert stop.vote.criterion_class == stopped.why.decided_by.criterion_class


def builder() -> AgentBuilder:
    return agent_of([WORK] * 3 + ["done"])


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (builder().with_max_steps(1, shadow=True), "max_steps"),
        (builder().with_max_tokens(1, shadow=True), "max_tokens"),
        (builder().with_max_input_tokens(1, shadow=True), "max_input_tokens"),
        (builder().with_max_output_tokens(1, shadow=True), "max_output_tokens"),
        (builder().with_max_cost("0.000001", prices=PRICES, shadow=True), "max_cost"),
        (builder().with_max_tool_calls(1, shadow=True), "max_tool_calls"),
        (builder().with_timeout(1, shadow=True), "timeout"),
        (builder().with_cumulative_timeout(1, shadow=True), "cumulative_timeout"),
        (builder().with_finish_reasons("tool_calls", shadow=True), "finish_reasons"),
    ],
)
async def test_a_builder_puts_any_limit_in_shadow(made: AgentBuilder, name: LimitName) -> None:
    agent = made.build()
    assert agent.limits.shadow == (name,)
    assert (await run(agent)).ending == ("completed", "completed")


async def test_setting_a_limit_again_takes_it_out_of_the_shadow() -> None:
    both = builder().with_max_steps(1, shadow=True).with_max_tokens(9, shadow=True).with_max_steps(2)
    assert both.build().limits.shadow == ("max_tokens",)
    assert (await run(both.build())).ending == ("completed", "steps_limit")


def test_a_shadow_is_true_or_false_so_that_no_word_for_no_takes_a_limit_away() -> None:
    word: Any = "false"
    with pytest.raises(ConfigurationError, match=r"agent '.*': max_steps: shadow is True or False, not 'false'"):
        builder().with_max_steps(1, shadow=word)


def test_the_order_in_which_limits_are_put_in_shadow_makes_no_other_agent() -> None:
    one = builder().with_max_steps(9, shadow=True).with_max_tokens(9, shadow=True).build()
    other = builder().with_max_tokens(9, shadow=True).with_max_steps(9, shadow=True).build()
    assert one.snapshot.fingerprint == other.snapshot.fingerprint


async def test_a_stricter_limit_can_be_on_trial_beside_the_one_that_holds_and_as_a_hook() -> None:
    trial = builder().with_max_steps(3).with_criteria(Shadow(StepsLimit(1)))
    ran = await run(trial.with_hook(HookType.BEFORE_STEP, CriterionHook(Shadow(StepsLimit(2)))).build())
    assert ran.ending == ("completed", "steps_limit")
    assert ran.why.advice is not None
    assert [change.text for change in ran.why.advice.changes] == ["max_steps=4 or more"]
    votes = [vote for vote in ran.why.votes if vote.criterion_class == "StepsLimit"]
    assert [vote.shadow for vote in votes] == [None, *[ContinuationDecision.FORBID] * 2]
    assert [(stop.step, stop.vote.context["maxSteps"]) for stop in ran.why.shadow_stops] == [(1, 1)]
