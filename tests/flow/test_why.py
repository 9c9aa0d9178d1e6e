"""The answer of `why` about a run: the tries of the visit that decided, what was cut off, and kept results."""

import re
import sys
from decimal import Decimal

import pytest

from steptrail import AgentBuilder, Limits, ToolEffect
from steptrail.domain.flow.events import NodeThen
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ExecutionFailed
from steptrail.interfaces.cli.flow_why import print_flow_why
from steptrail.interfaces.cli.output import Output
from steptrail.models import PriceTable
from steptrail.projections.flow_explanation import FlowAttempt, FlowExplanation, verdict_of
from steptrail.testing import ScriptedModel, call
from steptrail.tools import OnUnknown
from steptrail.workflow import Budget, Cache, Envelope, RetryPolicy, Rule, RunOptions, Update, Workflow
from tests.flow.kit import World, events_of, named, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


def tries(attempts: tuple[FlowAttempt, ...]) -> list[tuple[str, int, int | None, int, str]]:
    return [(each.node, each.visit, each.item, each.attempt, each.outcome) for each in attempts]


def count(seen: Envelope) -> Update:
    return Update(set={"round": int(str(seen.get("round", 0))) + 1})


def printed(explained: FlowExplanation, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_flow_why(Output(sys.stdout, sys.stderr), explained, None)
    return [re.sub(r"\d\d:\d\d:\d\d", "TIME", line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.acceptance("7.5-4")
async def test_the_tries_are_those_of_the_visit_that_decided() -> None:
    world, clock = World(), HandClock()
    away = ConnectionError("away")
    world.fails["work"] = [away, None, away, away]
    flow = (
        Workflow("t")
        .function("count", count)
        .tool("work", world.tool(), args={"name": "work"}, retry=RetryPolicy(max_attempts=2, backoff=1.0))
        .rule_router("again", [Rule(lambda seen: seen.get("round") < 3, to="count")], default="done")
        .noop("done")
        .chain("count", "work", "again", "done")
        .edge("again", "count", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        why = await trail.flow("f").why()
        assert why.error is not None
        assert (why.error.visit, why.spent.attempts) == (2, 6)
        assert tries(why.attempts) == [
            ("work", 2, None, 1, "failed (unavailable)"),
            ("work", 2, None, 2, "failed (unavailable)"),
        ]
        assert [each.wait_seconds for each in why.attempts] == [1.0, None]


async def test_the_tries_are_those_of_the_item_that_decided() -> None:
    world, clock = World(), HandClock()
    away = ConnectionError("away")
    world.fails = {"a": [away], "b": [away, away]}
    flow = (
        Workflow("t")
        .map(
            "each",
            over="input",
            tool=world.tool(),
            args={"name": "{{ item }}"},
            concurrency=1,
            retry=RetryPolicy(max_attempts=2, backoff=1.0),
        )
        .build()
    )
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow, ["a", "b", "c"])
        why = await trail.flow("f").why()
        assert tries(why.attempts) == [
            ("each", 1, 1, 1, "failed (unavailable)"),
            ("each", 1, 1, 2, "failed (unavailable)"),
        ]


@pytest.mark.parametrize("effect", [ToolEffect.READ, ToolEffect.IDEMPOTENT, ToolEffect.KEYED])
@pytest.mark.acceptance("7.5-5")
async def test_a_try_that_a_crash_cut_off_says_that_it_ran_again_under_the_same_effect_id(
    effect: ToolEffect, capsys: pytest.CaptureFixture[str]
) -> None:
    world, clock = World(), HandClock()
    world.breaks = {"last": RuntimeError("no")}
    flow = (
        Workflow("t")
        .tool("work", world.tool(effect), args={"name": "work"})
        .tool("last", world.tool(effect), args={"name": "last"}, retry=1)
        .chain("work", "last")
        .build()
    )
    async with trail_of(clock) as trail:
        for number in (1, 2):
            with pytest.raises(Crash):
                await run_to_rest(again_on(trail, clock, crash_at("after-node", number)), clock, flow)
        await run_to_rest(trail, clock, flow)
        why = await trail.flow("f").why()
        (cut,) = why.interrupted
        assert (cut.node, cut.outcome, cut.then, cut.effect) == ("work", "interrupted (crash)", NodeThen.RERUN, effect)
        assert cut.effect_id == "f:1:work:1"
        assert [(each.effect_id, each.then) for each in why.attempts] == [
            ("f:1:last:1", NodeThen.RERUN),
            ("f:1:last:1", None),
        ]
        again = f"interrupted (crash), to run again: {effect.value}, under the same effect id"
        lines = printed(why, capsys)
        assert f"attempts    1 TIME 0.00 s {again}" in lines
        assert f"cut off     work: attempt 1 TIME 0.00 s {again}" in lines
        assert "retry: 2 of 1 used, more because of an interruption" in "\n".join(lines)
        data = why.to_dict()["interrupted"]
        assert isinstance(data, list)
        assert {"effect": effect.value, "then": "rerun", "effectId": "f:1:work:1"}.items() <= dict(data[0]).items()  # type: ignore[arg-type]


async def test_a_try_that_nobody_may_repeat_says_that_a_person_is_asked_and_then_who_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .tool("work", world.tool(ToolEffect.UNSAFE, OnUnknown.PARK), args={"name": "work"}, retry=1)
        .build()
    )
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow)
        await run_to_rest(trail, clock, flow)
        handle = trail.flow("f")
        assert [each.then for each in (await handle.why()).interrupted] == [NodeThen.PARK]
        assert "interrupted (crash), parked: a person is to say" in "\n".join(printed(await handle.why(), capsys))
        await handle.settle("f:1:work:1", "failed", by="ana", message="the bank says no")
        await handle.resume(flow)
        why = await handle.why()
        assert [(each.outcome, each.then) for each in why.attempts] == [("failed (unknown_outcome), said by ana", None)]
        assert why.interrupted == ()


async def test_a_result_that_was_kept_is_told_and_is_no_try(capsys: pytest.CaptureFixture[str]) -> None:
    world, clock = World(), HandClock()

    flow = (
        Workflow("t")
        .function("count", count)
        .function("work", world.function("work"), cache=Cache(key=("input",)))
        .map("items", over="input", function=world.function("item"), cache=Cache())
        .rule_router("again", [Rule(lambda seen: seen.get("round") < 3, to="count")], default="done")
        .llm("done", ScriptedModel(["x"]), prompt="hi")
        .chain("count", "work", "items", "again", "done")
        .edge("again", "count", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow, ["a"])
        why = await trail.flow("f").why()
        assert tries(why.kept) == [
            ("work", 2, None, 0, "kept"),
            ("items", 2, 0, 0, "kept"),
            ("work", 3, None, 0, "kept"),
            ("items", 3, 0, 0, "kept"),
        ]
        assert why.interrupted == ()
        names = "work (visit 2), items (visit 2) item 1, work (visit 3), items (visit 3) item 1"
        assert f"kept        {names}: an earlier result stood in" in printed(why, capsys)


async def test_a_loop_has_finished_no_more_nodes_than_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    flow = (
        Workflow("t")
        .function("count", count)
        .rule_router("again", [Rule(lambda seen: seen.get("round") < 5, to="count")], default="ask")
        .human("ask", prompt="?")
        .noop("never")
        .chain("count", "again", "ask", "never")
        .edge("again", "count", loop=True)
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        why = await trail.flow("f").why()
    assert (why.spent.finished_nodes, why.spent.finished_visits) == (2, 10)
    assert any(line.startswith("spent       2 of 4 nodes in 10 visits, 5 attempts, ") for line in printed(why, capsys))


@pytest.mark.parametrize("when", ["review_approved", "vars.review_approved == true", "review.approved"])
async def test_a_run_that_a_gate_stopped_says_what_the_reviewer_said(
    when: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = (
        Workflow("t")
        .human("ask", prompt="Publish?", output="review")
        .gate("checked", when=when)
        .chain("ask", "checked")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("ask", approved=False, by="ana", notes="the prices are of last year")
        await trail.flow("f").resume(flow)
        why = await trail.flow("f").why()
    assert "it saw      review: ana rejected: the prices are of last year" in printed(why, capsys)
    data = why.to_dict()["lookedAt"]
    assert isinstance(data, dict)
    assert data["review"]["notes"] == "the prices are of last year"  # type: ignore[index,call-overload]


@pytest.mark.parametrize("is_a_function", [True, False])
async def test_a_run_that_a_gate_stopped_says_what_the_node_before_it_found(
    is_a_function: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found: JsonValue = {"ok": False, "why": "it is too long", "api_key": "sk-1", "all": [*["x" * 900] * 90]}
    flow = (
        Workflow("t")
        .function("critic", lambda _: found, output="verdict")
        .gate("checked", when=(lambda seen: seen.get("verdict.ok")) if is_a_function else "verdict.ok")
        .chain("critic", "checked")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        why = await trail.flow("f").why()
    (line,) = [each for each in printed(why, capsys) if each.startswith("it saw")]
    assert line.startswith('it saw      verdict: {"ok": false, "why": "it is too long", "api_key": "')
    assert "sk-1" not in line
    assert len(line) < 400
    assert len(str(why.to_dict()["lookedAt"])) < 8_000


async def test_a_run_whose_process_died_as_it_looked_after_its_agent_says_that_it_waits_for_it() -> None:
    world, clock = World(), HandClock()
    asking = AgentBuilder("below").with_model(ScriptedModel([call("act", name="a"), "Done."]))
    below = asking.with_tools(world.tool(approval=True)).with_limits(Limits(longest_wait=0.0)).build()
    flow = Workflow("t").agent("ask", below, prompt="go").build()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        before = await trail.flow("f").why()
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-append")).flow("f").resume(flow)
        after = await trail.flow("f").why()
    assert before.waits_for is not None
    assert before.waits_for.endswith('which "ask" runs')
    assert (after.waits_for, after.verdict) == (before.waits_for, before.verdict)


async def test_a_run_whose_process_died_after_one_of_two_answers_has_crashed_as_lists_say() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .human("a", prompt="A?")
        .human("b", prompt="B?")
        .tool("work", world.tool(), args={"name": "work"})
        .chain("a", "work")
        .build()
    )
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("a", approved=True, by="ana")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).flow("f").resume(flow)
        (row,) = await trail.runs()
        why = await trail.flow("f").why()
    assert (row.is_crashed, why.is_crashed, why.status) == (True, True, "in_progress")
    assert why.crash is not None
    assert why.crash.endswith('in node "work", attempt 1 (f:1:work:1)')
    assert why.verdict == "in_progress: b, work; its process died: no process runs it"


async def test_a_run_that_has_used_up_its_budget_says_that_a_retry_needs_a_larger_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few, more = (RunOptions(budget=Budget(max_total_tokens=most)) for most in (1, 1_000))
    flow = Workflow("t").llm("a", ScriptedModel(["Yes."]), prompt="go").noop("b").chain("a", "b").build()
    async with trail_of() as trail:
        handle = trail.flow("f")
        statuses = [(await trail.run(flow, session="f", options=few)).status]
        lines = printed(await handle.why(), capsys)
        statuses += [(await handle.retry(flow)).status, (await handle.retry(flow, options=more)).status]
    place = next(at for at, line in enumerate(lines) if line.startswith("to go on    `steptrail retry "))
    said = "with a larger budget, by `options` of `retry` in Python: what was used counts on"
    assert lines[place + 1] == f"{'':<11} {said}"
    assert statuses == ["failed", "failed", "completed"]


@pytest.mark.parametrize("is_item", [False, True])
async def test_a_node_or_an_item_that_has_used_up_its_budget_says_that_a_retry_does_not_help(
    *, is_item: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tight, flow = ScriptedModel(["Yes.", "Yes."]), Budget(max_total_tokens=1), Workflow("t")
    if is_item:
        flow = flow.map("a", over="input", model=model, prompt="go", item_budget=tight)
    else:
        flow = flow.llm("a", model, prompt="go", budget=tight, retry=1)
    async with trail_of() as trail:
        handle = trail.flow("f")
        await trail.run(flow.build(), [1], session="f")
        lines = printed(await handle.why(), capsys)
        again = await handle.retry(flow.build())
    said = "and has to end the same way: what the node has used counts on, and its budget is recorded"
    assert f"{'':<11} {said}" in lines
    assert again.status == "failed"


async def test_a_node_that_has_cost_too_much_says_that_a_retry_needs_other_prices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tight = Budget(max_cost_usd=Decimal("0.000001"))
    flow = Workflow("t").llm("a", ScriptedModel(["Yes."]), prompt="go", budget=tight).build()
    prices = PriceTable.of({"scripted": {"input": 1, "output": 1}}, version="1")
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(prices=prices))
        lines = printed(await trail.flow("f").why(), capsys)
    said = "and has to end the same way by these prices: what the node has used counts on, and its budget is recorded"
    assert f"{'':<11} {said}" in lines


async def test_a_run_that_somebody_aborted_says_who_did_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    flow = Workflow("t", options=RunOptions(pause_before=("b",))).noop("a").noop("b").chain("a", "b").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        handle = trail.flow("f")
        await handle.step("b", "abort", by="ana", reason="wrong customer")
        result = await handle.resume(flow)
        why = await handle.why()
    assert why.verdict == 'stopped (user_requested) at "b" by ana: wrong customer'
    assert any(line.startswith("stopped     by ana: wrong customer, since ") for line in printed(why, capsys))
    assert why.state.stopped_by is not None
    assert (why.state.stopped_by.by, why.state.stopped_by.reason) == ("ana", "wrong customer")
    with pytest.raises(ExecutionFailed, match=r"is stopped \(user_requested\) by ana: wrong customer$"):
        result.raise_for_stop()


async def test_a_run_that_is_asked_to_stop_and_has_not_ended_says_so() -> None:
    flow = Workflow("t").human("ask", prompt="Go on?").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").stop(by="ana", reason="enough")
        asked = named(await events_of(trail)).index("stop.requested") + 1
        state = await trail.flow("f").state(at=asked)
    assert verdict_of(state) == "waiting: a stop is asked for by ana: enough"


async def test_a_run_that_no_worker_has_begun_says_since_when_it_waits_for_one() -> None:
    world, clock = World(), HandClock()
    world.fails["work"] = [RuntimeError("broken")]
    flow = Workflow("t").function("work", world.function("work")).build()
    said = "not started: waiting for a worker since 2027-01-15 08:0{}:00 UTC"
    async with trail_of(clock) as trail:
        handle = await trail.start(flow, session="f")
        clock.advance(60)
        assert (await handle.why()).verdict == said.format(0)
        await handle.resume(flow)
        await handle.requeue(by="ana")
        assert (await handle.why()).verdict == said.format(1)
