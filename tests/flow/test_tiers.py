"""The three tiers: what becomes of a run whose node fails, by the node's word, the run's, and a critical node's."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from steptrail import ToolEffect, tool
from steptrail.domain.flow.events import NodeFailed, NodeFailureRecorded, NodeRetryScheduled
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import ExecutionFailed
from steptrail.runtime.flow.written import TryingSettings
from steptrail.workflow import (
    Envelope,
    FailureClass,
    NodeError,
    OnError,
    RetryPolicy,
    Rule,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, named, run_to_rest
from tests.runner.kit import HandClock, trail_of

ANY: Any = "a text"
AWAY = [ConnectionError("it is away")] * 3


@pytest.mark.acceptance("7.1-2")
@pytest.mark.parametrize(
    ("on_error", "critical", "tolerated", "outcome", "tier", "rule"),
    [
        ("continue", False, False, "recorded", "node", "on_error=continue"),
        ("record", False, False, "recorded", "node", "on_error=record"),
        ("continue", True, True, "recorded", "node", "on_error=continue"),
        ("fail", False, True, "recorded", "run", "continue_on_error"),
        (None, False, True, "recorded", "run", "continue_on_error"),
        (None, True, True, "failed", "node", "critical"),
        ("fail", True, True, "failed", "node", "critical"),
        (None, False, False, "failed", "run", "continue_on_error is off"),
        ("fail", True, False, "failed", "run", "continue_on_error is off"),
        (None, False, (FailureClass.BUDGET,), "failed", "run", "continue_on_error does not hold unavailable"),
        (None, False, (FailureClass.UNAVAILABLE,), "recorded", "run", "continue_on_error"),
    ],
)
async def test_the_truth_table(
    on_error: str | None, critical: bool, tolerated: bool | tuple[FailureClass, ...], outcome: str, tier: str, rule: str
) -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [*AWAY]
    settings: TryingSettings = {"critical": critical, "output": "out"}
    if on_error is not None:
        settings["on_error"] = OnError(on_error)
    flow = (
        Workflow("t")
        .tool("a", world.tool(), args={"name": "a"}, **settings)
        .function("b", world.function("b"))
        .chain("a", "b")
        .build()
    )
    options = RunOptions(longest_wait=0.0, continue_on_error=tolerated)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, options=options)
        why = await trail.flow("f").why()
        assert world.done["a"] == 3
        if outcome == "recorded":
            (recorded_error,) = result.errors
            error: NodeError | None = recorded_error
            assert (result.status, world.done["b"]) == (ExecutionStatus.COMPLETED, 1)
            assert result.envelope.vars["out"] is None
            assert result.envelope.vars["out_error"] == recorded_error.message
            assert "1 recorded error" in why.verdict
            with pytest.raises(ExecutionFailed):
                result.raise_for_stop()
            assert result.raise_for_stop(allow_errors=True) is result
        else:
            error = result.error
            assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.RETRY_LIMIT)
            assert (world.done["b"], result.errors) == (0, ())
            assert rule in why.verdict
            assert "out" not in result.envelope.vars
        assert error is not None
        assert (error.tier, error.attempt, error.failure) == (tier, 3, FailureClass.UNAVAILABLE)
        assert error.message == 'tool "act" failed after 3 attempts: it is away'
        recorded = [event for event in await events_of(trail) if isinstance(event, NodeFailureRecorded)]
        assert [event.rule for event in recorded] == ([rule] if outcome == "recorded" else [])


@pytest.mark.parametrize(
    ("settings", "tolerated", "outcome", "tier", "rule"),
    [
        ({"on_error": "continue", "continue_on": ("unavailable",)}, False, "recorded", "node", "on_error=continue"),
        ({"on_error": "continue", "continue_on": ("timeout",)}, True, "recorded", "run", "continue_on_error"),
        ({"on_error": "record", "continue_on": ("timeout",), "critical": True}, True, "failed", "node", "critical"),
        ({"continue_on": ("timeout",)}, False, "failed", "run", "continue_on_error is off"),
        ({"continue_on": ("timeout",)}, (), "failed", "run", "continue_on_error is off"),
        ({"error_edge": True}, False, "recorded", "node", "on_error=record"),
        ({"error_edge": True, "critical": True}, True, "recorded", "node", "on_error=record"),
        (
            {"error_edge": True, "continue_on": ("timeout",)},
            ("timeout",),
            "failed",
            "run",
            "continue_on_error does not hold unavailable",
        ),
    ],
)
async def test_the_truth_table_where_classes_or_an_error_edge_decide(
    settings: dict[str, Any], tolerated: bool | tuple[FailureClass, ...], outcome: str, tier: str, rule: str
) -> None:
    world, clock = World(), HandClock()
    world.breaks["a"] = ConnectionError("away")
    has_edge = settings.pop("error_edge", False)
    flow = Workflow("t").function("a", world.function("a"), **settings).function("b", world.function("b"))
    flow.edge("a", "b", when="error" if has_edge else "done")
    async with trail_of(clock) as trail:
        options = RunOptions(longest_wait=0.0, continue_on_error=tolerated)
        result = await run_to_rest(trail, clock, flow.build(), options=options)
        events = await events_of(trail)
    (decided,) = [event for event in events if isinstance(event, NodeFailureRecorded | NodeFailed)]
    assert (decided.error.tier, decided.rule) == (tier, rule)
    assert isinstance(decided, NodeFailureRecorded if outcome == "recorded" else NodeFailed)
    assert world.done["b"] == (outcome == "recorded")
    assert result.has_errors() is (outcome == "recorded")


@pytest.mark.acceptance("7.1-1")
async def test_the_three_examples_of_the_decision_on_error_handling() -> None:
    world, clock = World(), HandClock()
    async with trail_of(clock) as trail:
        act, args = world.tool(), {"name": "x"}
        critical = Workflow("a").tool("critical-tool", act, args=args, on_error=OnError.FAIL).build()
        optional = (
            Workflow("b").tool("optional-tool", act, args=args, on_error=OnError.CONTINUE, output="found").build()
        )
        world.fails["x"] = [*AWAY]
        result = await run_to_rest(trail, clock, optional, session="optional")
        assert result.envelope.vars["found"] is None
        assert "it is away" in str(result.envelope.vars["found_error"])
        world.fails["x"] = [*AWAY]
        assert (await run_to_rest(trail, clock, critical, session="critical")).status is ExecutionStatus.FAILED
        world.fails["x"] = [*AWAY]
        tolerant = RunOptions(continue_on_error=True, longest_wait=0.0)
        result = await run_to_rest(trail, clock, critical, session="tolerant", options=tolerant)
        assert result.envelope.has_errors()
        assert [(error.node_id, error.attempt) for error in result.errors] == [("critical-tool", 3)]


@pytest.mark.acceptance("7.1-3")
async def test_each_try_and_each_wait_is_an_event_and_waits_grow_by_the_number_of_the_try() -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [*AWAY]
    retry = RetryPolicy(max_attempts=4, backoff=2.0)
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, retry=retry).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        events = await events_of(trail)
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, "a is done")
    assert [event.delay_seconds for event in events if isinstance(event, NodeRetryScheduled)] == [2.0, 4.0, 6.0]
    assert named(events).count("node.attempt.started") == 4
    assert named(events).count("node.attempt.failed") == 3


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ConnectionError("x"), FailureClass.UNAVAILABLE),
        (TimeoutError("x"), FailureClass.TIMEOUT),
        (RuntimeError("x"), FailureClass.TOOL),
        (ValueError("x"), FailureClass.TOOL),
    ],
)
async def test_the_class_of_a_failure_is_derived_where_it_is_caught(error: Exception, failure: FailureClass) -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [error]
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, retry=1).build()
    async with trail_of(clock) as trail:
        failed = (await run_to_rest(trail, clock, flow)).error
    assert failed is not None
    assert failed.failure is failure


@pytest.mark.parametrize(
    "returned", [object(), float("nan"), {1: 2}, Update(set={"a": {1}.add}), Update(messages=(ANY,))]
)
async def test_what_has_done_its_work_and_returns_what_cannot_be_kept_is_not_done_again(returned: object) -> None:
    done = 0

    def work(_: object) -> object:
        nonlocal done
        done += 1
        return returned

    @tool(effect=ToolEffect.UNSAFE)
    def charge() -> object:
        """Charge."""
        return work(None)

    of_tool = Workflow("t").tool("a", charge, args={}).build()
    of_function = Workflow("t").function("a", work, effect="unsafe", retry=3).build()
    clock = HandClock()
    for flow in [of_function] if isinstance(returned, Update) else [of_function, of_tool]:
        done = 0
        async with trail_of(clock) as trail:
            failed = (await run_to_rest(trail, clock, flow)).error
        assert failed is not None
        assert (failed.failure, failed.attempt, done) == (FailureClass.VALIDATION, 1, 1)


@pytest.mark.acceptance("7.1-4")
async def test_a_policy_that_is_limited_to_classes_lets_the_others_fail() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .tool("a", world.tool(), args={"name": "a"}, retry=1, on_error="continue", continue_on=("timeout",))
        .build()
    )
    async with trail_of(clock) as trail:
        world.fails["a"] = [TimeoutError("late")]
        assert (await run_to_rest(trail, clock, flow, session="late")).has_errors()
        world.fails["a"] = [ConnectionError("away")]
        assert (await run_to_rest(trail, clock, flow, session="away")).status is ExecutionStatus.FAILED


@pytest.mark.acceptance("7.1-5")
async def test_a_success_clears_the_error_of_an_earlier_run_of_the_node() -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [ConnectionError("away"), None]
    flow = (
        Workflow("t")
        .tool("a", world.tool(), args={"name": "a"}, retry=1, on_error="continue", output="out")
        .rule_router("again", [Rule(lambda seen: seen.vars["out"] is None, to="a")], default="done")
        .noop("done")
        .chain("a", "again", "done")
        .edge("again", "a", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    assert result.envelope.vars["out"] == "a is done"
    assert "out_error" not in result.envelope.vars
    assert [error.visit for error in result.errors] == [1]


@pytest.mark.acceptance("7.1-6")
async def test_a_blocked_gate_enables_nothing_under_tolerance() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .gate("g", when="vars.ready", critical=False)
        .function("b", world.function("b"))
        .chain("g", "b")
        .build()
    )
    async with trail_of(clock) as trail:
        tolerant = RunOptions(continue_on_error=True)
        result = await run_to_rest(trail, clock, flow, options=tolerant)
        assert (result.status, world.done["b"], len(result.errors)) == (ExecutionStatus.COMPLETED, 0, 1)
        result = await run_to_rest(trail, clock, flow, session="strict", options=LEAVES)
        assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.GUARD)
        critical = Workflow("t").gate("g", when="vars.ready").build()
        failed = await run_to_rest(trail, clock, critical, session="critical", options=tolerant)
        assert failed.state.run is not None
        assert failed.state.run.finished is not None
        assert failed.state.run.finished.resolved_by == "CriticalNode"


@pytest.mark.acceptance("7.1-7")
async def test_an_error_edge_is_taken_after_a_recorded_failure_only() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .function("a", world.function("a"))
        .function("b", world.function("b"))
        .function("c", world.function("c"))
        .edge("a", "b")
        .edge("a", "c", when="error")
        .build()
    )
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow, session="well")
        assert (world.done["b"], world.done["c"]) == (1, 0)
        world.fails["a"] = [RuntimeError("no")]
        result = await run_to_rest(trail, clock, flow, session="ill")
        assert (world.done["b"], world.done["c"], result.status) == (1, 1, ExecutionStatus.COMPLETED)


@pytest.mark.acceptance("7.1-8")
async def test_a_missing_value_is_a_failure_of_the_class_config_and_no_try() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(), args={"name": "{{ vars.nothing.at_all }} x"}).build()
    async with trail_of(clock) as trail:
        failed = (await run_to_rest(trail, clock, flow)).error
    assert failed is not None
    assert (failed.failure, failed.attempt, world.done["a"]) == (FailureClass.CONFIG, 0, 0)


@pytest.mark.acceptance("7.1-9")
async def test_the_time_of_a_node_is_one_for_all_tries_and_waits_and_the_cause_stays() -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [*AWAY]
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, timeout=2.5).build()
    async with trail_of(clock) as trail:
        failed = (await run_to_rest(trail, clock, flow)).error
    assert failed is not None
    assert (failed.failure, failed.attempt, world.done["a"]) == (FailureClass.TIMEOUT, 2, 2)
    assert "it is away" in failed.message


async def test_a_try_that_is_out_of_time_says_the_timeout_that_is_set_and_not_what_was_left_of_it() -> None:
    clock, tries = HandClock(), 0

    async def work(_: Envelope) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("away")
        await asyncio.sleep(60)

    retry = RetryPolicy(max_attempts=2, backoff=2.0)
    flow = Workflow("t").function("a", work, retry=retry, timeout=2.1).build()
    async with trail_of(clock) as trail:
        failed = (await run_to_rest(trail, clock, flow)).error
    assert failed is not None
    assert (failed.failure, failed.attempt) == (FailureClass.TIMEOUT, 2)
    assert failed.message.endswith("it did not end within 2.1 s")


def test_a_budget_of_dollars_is_exact() -> None:
    from steptrail.domain.flow.concluding import breach
    from steptrail.domain.prices import Cost
    from steptrail.domain.usage import Usage
    from steptrail.workflow import Budget

    usage, budget = Usage(input=5, output=5), Budget(max_total_tokens=10, max_cost_usd=Decimal("0.01"))
    part = Cost(usd=Decimal("0.01"), unpriced=("m",), unmetered=2, unattributed=7)
    assert breach(budget, usage, Cost(usd=Decimal("0.01")), "fail_closed") is None
    assert breach(budget, usage, Cost(usd=Decimal("0.010001")), "fail_closed") == ("max_cost_usd", "0.01", "0.010001")
    assert breach(Budget(max_input_tokens=4), usage, None, "fail_closed") == ("max_input_tokens", "4", "5")
    assert breach(Budget(max_input_tokens=0), usage, None, "fail_closed") is None
    assert breach(budget, usage, part, "fail_closed") == (
        "max_cost_usd",
        "0.01",
        "0.01 and what cannot be told (no price for m; replies that do not say what they used: 2; "
        "tokens of no known model: 7)",
    )
    assert breach(budget, usage, part, "ignore") is None
    assert breach(Budget(max_total_tokens=10), usage, part, "fail_closed") is None
