"""What a run is billed ends it at its limits, and is told wherever somebody asks."""

from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder, Limits
from steptrail.domain.agent.events import EvaluationsRecorded, ExecutionStarted, InferenceStarted, StepCompleted
from steptrail.domain.inference import ModelReply
from steptrail.errors import ConfigurationError
from steptrail.models import PriceTable, Unpriced, Usage
from steptrail.projections import project_agent_state
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.runner.kit import Crash, Run, again_on, agent_of, crash_at, run, trail_of

WORK = call("add", a=1, b=2)
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="2026-11", source="a page", date="2026-11-02")
"""A reply of the script, 10 tokens in and 5 out, costs 20 microdollars."""
REPLY = Decimal("0.00002")


def billed(usage: Usage, by: str | None = None) -> ModelReply:
    return structs.replace(calls(("add", {"a": 1, "b": 1}), usage=usage), response_model=by)


def decided_by(ran: Run) -> str:
    assert ran.result.outcome is not None
    return ran.result.outcome.resolved_by


@pytest.mark.parametrize(
    ("builder", "by", "ending", "steps"),
    [
        (agent_of([WORK] * 3).with_max_input_tokens(20), "InputTokenLimit", "token_limit", 2),
        (agent_of([WORK] * 3).with_max_output_tokens(11), "OutputTokenLimit", "token_limit", 3),
        (agent_of([WORK] * 3).with_max_output_tokens(0), "OutputTokenLimit", "token_limit", 0),
        (agent_of([WORK] * 3).with_max_cost(2 * REPLY, prices=PRICES), "CostLimit", "guard", 2),
        (agent_of([WORK] * 3).with_prices(PRICES).with_max_cost("0.000021"), "CostLimit", "guard", 2),
        (agent_of([WORK] * 3).with_max_cost(0, prices=PRICES), "CostLimit", "guard", 0),
    ],
)
async def test_a_run_stops_at_the_boundary_where_its_limit_is_reached(
    builder: AgentBuilder, by: str, ending: str, steps: int
) -> None:
    ran = await run(builder.build())
    assert ran.ending == ("completed", ending)
    assert (decided_by(ran), ran.result.state.step_count) == (by, steps)


async def test_a_cost_stop_names_its_limit_and_what_was_spent() -> None:
    ran = await run(agent_of([WORK] * 3).with_max_cost(REPLY, prices=PRICES).build())
    vote = ran.why.decided_by
    assert vote is not None
    assert vote.context == {"costUsd": "0.00002", "maxCostUsd": "0.00002", "limit": "max_cost"}
    assert ran.why.verdict == (
        "completed, stopped after 1 step (guard), decided by CostLimit: Cost limit reached: 0.00002/0.00002 USD"
    )


async def test_a_run_overshoots_by_the_step_that_reaches_the_limit_and_no_more() -> None:
    script = [billed(Usage(input=9)), billed(Usage(input=1_000_000)), billed(Usage(input=1))]
    ran = await run(agent_of(script).with_max_tokens(None).with_max_cost("0.00001", prices=PRICES).build())
    assert ran.result.cost is not None
    assert (ran.result.state.step_count, ran.result.cost.usd) == (2, Decimal("1.000009"))


async def test_an_unpriced_model_under_fail_closed_stops_before_the_first_call() -> None:
    model = ScriptedModel([WORK], name="unheard-of")
    ran = await run(agent_of([]).with_model(model).with_max_cost(5, prices=PRICES).build())
    assert ran.ending == ("completed", "guard")
    assert (model.requests, ran.all(InferenceStarted), ran.result.state.step_count) == ([], [], 0)
    vote = ran.why.decided_by
    assert vote is not None
    assert vote.reason == "Cost cannot be told, at least 0/5 USD: no price for unheard-of"
    assert (vote.context["limit"], vote.context["unpricedModels"]) == ("max_cost", ["unheard-of"])


@pytest.mark.parametrize(
    ("unpriced", "told"),
    [("warn", ["unheard-of"]), ("ignore", None)],
)
async def test_an_unpriced_model_goes_on_where_that_is_wanted_and_warn_says_so_in_every_vote(
    unpriced: Unpriced, told: list[str] | None
) -> None:
    model = ScriptedModel([WORK, "done"], name="unheard-of")
    ran = await run(agent_of([]).with_model(model).with_max_cost(5, prices=PRICES, unpriced=unpriced).build())
    assert ran.ending == ("completed", "completed")
    votes = [v for each in ran.all(EvaluationsRecorded) for v in each.votes if v.criterion_class == "CostLimit"]
    assert [vote.context.get("unpricedModels") for vote in votes] == [told] * 3
    assert ran.result.cost is not None
    assert str(ran.result.cost) == "at least 0 USD"


async def test_a_reply_that_does_not_say_what_it_used_leaves_the_cost_open_and_is_not_taken_for_free() -> None:
    ran = await run(agent_of([billed(Usage()), "done"]).with_max_cost(5, prices=PRICES).build())
    assert (ran.ending, decided_by(ran), ran.result.state.step_count) == (("completed", "guard"), "CostLimit", 1)
    vote = ran.why.decided_by
    assert vote is not None
    assert vote.reason == "Cost cannot be told, at least 0/5 USD: replies that do not say what they used: 1"


async def test_a_version_without_a_price_is_billed_as_the_model_that_was_asked_for() -> None:
    ran = await run(
        agent_of([billed(Usage(input=3), by="scripted-2026-11-02"), "done"]).with_max_cost(5, prices=PRICES).build()
    )
    assert ran.ending == ("completed", "completed")
    assert str(ran.result.cost) == "0.000023 USD"


async def test_a_cheaper_model_that_answered_is_billed_at_its_own_price() -> None:
    table = PriceTable.of(
        {"scripted": {"input": 9, "output": 9}, "scripted-mini": {"input": 1, "output": 1}}, version="1"
    )
    script: list[Reply] = [billed(Usage(input=7), by="scripted-mini"), billed(Usage(input=1)), "done"]
    ran = await run(agent_of(script).with_prices(table).build())
    assert ran.result.cost is not None
    assert ran.result.cost.usd == Decimal("0.000007") + Decimal("0.000009") + 15 * Decimal("0.000009")
    assert [(each.asked_for, each.answered_by) for each in ran.result.state.model_usage] == [
        ("scripted", "scripted-mini"),
        ("scripted", None),
    ]


async def test_the_prices_are_recorded_so_that_a_replay_computes_the_same_at_every_version() -> None:
    ran = await run(agent_of([WORK, "done"]).with_prices(PRICES).build())
    assert ran.one(ExecutionStarted).agent.limits.prices == PRICES
    told = [(record.version, record.event.cost) for record in ran.records if isinstance(record.event, StepCompleted)]
    assert [cost and cost.usd for _, cost in told] == [REPLY, 2 * REPLY]
    for version, cost in told:
        assert project_agent_state("s", ran.records, at=version).cost == cost
    assert ran.why.spent.cost == ran.result.cost


async def test_without_prices_nothing_is_said_of_money() -> None:
    ran = await run(agent_of(["done"]).build())
    assert (ran.result.cost, ran.why.spent.cost, ran.one(StepCompleted).cost) == (None, None, None)


async def test_prices_alone_add_no_vote() -> None:
    assert "CostLimit" not in [
        vote.criterion_class for vote in (await run(agent_of(["a"]).with_prices(PRICES).build())).why.votes
    ]


def test_a_limit_on_cost_needs_prices_and_an_amount() -> None:
    with pytest.raises(ConfigurationError, match=r"max_cost: a limit on cost needs `prices`, not Decimal"):
        agent_of([]).with_max_cost("5")
    for amount in ("-1", "much", "NaN"):
        with pytest.raises(ConfigurationError, match="max_cost: "):
            agent_of([]).with_max_cost(amount, prices=PRICES)
    plain: Any = {"scripted": {"input": 1, "output": 1}}
    with pytest.raises(ConfigurationError, match="prices is of the class PriceTable, not dict"):
        agent_of([]).with_prices(plain)
    with pytest.raises(ConfigurationError, match="prices is of the class PriceTable, not dict"):
        agent_of([]).with_max_cost("5", prices=plain)


async def test_a_resume_keeps_the_recorded_prices_and_with_other_limits_bills_the_whole_run_by_theirs() -> None:
    dear = PriceTable.of({"scripted": {"input": 100, "output": 200}}, version="2026-12")

    async def resumed(limits: Limits | None) -> Decimal:
        agent = agent_of([WORK, "done"]).with_prices(PRICES).build()
        async with trail_of(reach=crash_at("after-tool")) as trail:
            with pytest.raises(Crash):
                await trail.run(agent, "go", session="s")
            other = agent_of([WORK, "done"]).with_prices(dear).build()
            cost = (await again_on(trail).session("s").resume(other, limits=limits)).cost
            assert cost is not None
            return cost.usd

    assert await resumed(None) == 2 * REPLY
    assert await resumed(Limits(prices=dear)) == 200 * REPLY


async def test_the_list_of_runs_tells_the_cost() -> None:
    async with trail_of() as trail:
        await trail.run(agent_of([WORK, "done"]).with_prices(PRICES).build(), "go", session="priced")
        await trail.run(agent_of(["done"]).build(), "go", session="plain")
        assert {row.session_id: row.cost.usd if row.cost is not None else None for row in await trail.runs()} == {
            "plain": None,
            "priced": 2 * REPLY,
        }
