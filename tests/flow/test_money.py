"""Limits on cost of workflows: what has no price is beyond them, unless the run says to ignore it."""

from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder
from steptrail.domain.flow.events import LimitReached
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import ConfigurationError, ExecutionFailed
from steptrail.models import PriceTable, Usage
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import Budget, FailureClass, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import events_of
from tests.runner.kit import trail_of

DOLLAR = Budget(max_cost_usd=Decimal(1))


def priced(model: str) -> PriceTable:
    return PriceTable.of({model: {"input": 1, "output": 1}}, version="1")


async def test_a_limit_on_cost_needs_prices() -> None:
    with pytest.raises(ConfigurationError, match="prices"):
        RunOptions(budget=DOLLAR)
    flow = Workflow("t").llm("a", ScriptedModel([say("x")]), prompt="x", budget=DOLLAR).build()
    async with trail_of() as trail:
        failed = (await trail.run(flow)).error
    assert failed is not None
    assert (failed.failure, failed.attempt) == (FailureClass.CONFIG, 0)


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("1e99999999", "at most 40 digits before the point"),
        ("1e-13", "no more than 12 decimals"),
        ("-0.01", "0 or more"),
        ("NaN", "0 or more"),
    ],
)
def test_a_budget_that_nobody_counts_to_is_refused_as_the_limit_of_an_agent_is(amount: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Budget: max_cost_usd: .*{said}"):
        Budget(max_cost_usd=Decimal(amount))


@pytest.mark.parametrize("of", ["run", "node"])
async def test_a_model_without_a_price_is_not_asked_under_a_limit_on_cost_unless_that_is_ignored(of: str) -> None:
    budget = DOLLAR if of == "node" else Budget()
    flow = Workflow("t").llm("a", ScriptedModel([say("x")]), prompt="x", budget=budget).build()
    options = RunOptions(prices=priced("other"), budget=DOLLAR if of == "run" else None)
    async with trail_of() as trail:
        closed = await trail.run(flow, options=options)
        opened = await trail.run(flow, options=structs.replace(options, unpriced="ignore"))
    assert closed.error is not None
    assert (closed.error.failure, closed.error.attempt, closed.usage.total) == (FailureClass.CONFIG, 0, 0)
    assert "no price for 'scripted'" in closed.error.message
    assert closed.stop_reason is StopReason.GUARD
    assert opened.status is ExecutionStatus.COMPLETED


async def test_the_price_is_that_of_the_model_which_the_code_of_today_asks() -> None:
    models = [ScriptedModel([say("x")], name=name) for name in ("priced", "dear")]
    cheap, dear = (Workflow("t").llm("a", each, prompt="x").build() for each in models)
    options = RunOptions(prices=priced("priced"), budget=DOLLAR, pause_before=("a",))
    async with trail_of() as trail:
        for session, begun_with, asked_with in (("to-dear", cheap, dear), ("to-cheap", dear, cheap)):
            await trail.run(begun_with, session=session, options=options)
            await trail.flow(session).step("a", "continue", by="ana")
            await trail.flow(session).resume(asked_with)
        refused, asked = [await trail.flow(session).result() for session in ("to-dear", "to-cheap")]
    assert refused.error is not None
    assert "no price for 'dear'" in refused.error.message
    assert [len(each.requests) for each in models] == [1, 0]
    assert asked.status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_what_stopped_a_child_of_a_model_without_a_price_is_said_where_its_node_failed(kind: str) -> None:
    model, flow = ScriptedModel([say("x")]), Workflow("t")
    if kind == "agent":
        flow.agent("a", AgentBuilder("below").with_model(model).build(), prompt="x")
    else:
        flow.flow("a", Workflow("below").llm("b", model, prompt="x").build())
    async with trail_of() as trail:
        await trail.run(flow.build(), session="f", options=RunOptions(prices=priced("other"), budget=DOLLAR))
        why, rows = await trail.flow("f").why(), await trail.runs()
    assert why.error is not None
    assert "no price for" in why.error.message
    assert [row.stop_reason for row in rows if row.parent is not None] == ["guard"]


async def test_a_reply_that_does_not_say_what_it_used_passes_a_limit_on_cost() -> None:
    flow = Workflow("t").llm("a", ScriptedModel([say("x", usage=Usage())]), prompt="x", output="said").build()
    options = RunOptions(prices=priced("scripted"), budget=DOLLAR)
    async with trail_of() as trail:
        result = await trail.run(flow, options=options)
        ignored = await trail.run(flow, options=structs.replace(options, unpriced="ignore"))
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.GUARD)
    with pytest.raises(ExecutionFailed, match="max_cost_usd is 1, and it was 0 and what cannot be told"):
        result.raise_for_stop()
    assert ignored.status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("of", ["budget", "item_budget"])
async def test_a_try_that_failed_and_does_not_say_what_it_used_is_the_last_under_a_limit_on_cost(of: str) -> None:
    model = ScriptedModel([say("no object", usage=Usage())] * 2)
    again = RetryPolicy(max_attempts=2, backoff=0.0, retry_on=(FailureClass.VALIDATION,))
    asked: dict[str, Any] = {"prompt": "x", "schema": {"type": "object"}, "retry": again, of: DOLLAR}
    if of == "budget":
        written = Workflow("t").llm("a", model, **asked)
    else:
        written = Workflow("t").map("a", over="input", model=model, **asked)
    async with trail_of() as trail:
        result = await trail.run(written.build(), ["x"], options=RunOptions(prices=priced("scripted")))
    assert (len(model.requests), result.stop_reason) == (1, StopReason.GUARD)


@pytest.mark.parametrize("of", ["budget", "item_budget"])
async def test_a_retry_asks_no_model_for_a_node_or_an_item_that_has_used_up_its_budget(of: str) -> None:
    model = ScriptedModel([say("x", usage=Usage(input=20))] * 3)
    asked: dict[str, Any] = {"prompt": "x", of: Budget(max_total_tokens=10)}

    if of == "budget":
        written = Workflow("t").llm("a", model, **asked)
    else:
        written = Workflow("t").map("a", over="input", model=model, **asked)
    flow = written.build()
    async with trail_of() as trail:
        await trail.run(flow, ["x"], session="f")
        again = await trail.flow("f").retry(flow)
        last = await trail.flow("f").retry(flow)
        limits = [event.limit for event in await events_of(trail) if isinstance(event, LimitReached)]
    assert limits == ["max_total_tokens"] * (3 if of == "budget" else 0)
    assert (len(model.requests), again.usage.total, again.stop_reason) == (1, 20, StopReason.TOKEN_LIMIT)
    assert [str(each.error) for each in (again, last)] == [str(again.error)] * 2
    assert "it used 20, and max_total_tokens is 10" in str(again.error)


async def test_a_retry_asks_a_model_again_whose_price_it_brings() -> None:
    model = ScriptedModel([say("x", usage=Usage(input=20)), say("y")])
    flow = Workflow("t").llm("a", model, prompt="x", budget=Budget(max_cost_usd=Decimal("0.00001"))).build()
    dear = PriceTable.of({"scripted": {"input": 1, "output": 1}}, version="1")
    cheap = PriceTable.of({"scripted": {"input": Decimal("0.01"), "output": Decimal("0.01")}}, version="2")
    async with trail_of() as trail:
        first = await trail.run(flow, session="f", options=RunOptions(prices=dear))
        again = await trail.flow("f").retry(flow, options=RunOptions(prices=cheap))
    assert (first.stop_reason, again.status) == (StopReason.GUARD, ExecutionStatus.COMPLETED)


@pytest.mark.parametrize("prices", [None, priced("other")])
async def test_no_item_of_a_map_with_a_limit_on_cost_asks_a_model_without_a_price(prices: PriceTable | None) -> None:
    model = ScriptedModel([say("x"), say("y")])
    flow = Workflow("t").map("each", over="input", model=model, prompt="{{ item }}", budget=DOLLAR).build()
    async with trail_of() as trail:
        closed = await trail.run(flow, ["a", "b"], options=RunOptions(prices=prices))
        opened = await trail.run(flow, ["a", "b"], options=RunOptions(prices=priced("scripted")))
    assert closed.error is not None
    assert (closed.error.failure, closed.usage.total) == (FailureClass.CONFIG, 0)
    assert opened.status is ExecutionStatus.COMPLETED
