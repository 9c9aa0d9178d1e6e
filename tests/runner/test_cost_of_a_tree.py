"""What subagents and judges were billed has a price too: a limit on cost knows which models they asked."""

from decimal import Decimal

import pytest

from steptrail import Agent, AgentBuilder
from steptrail.domain.agent.events import ToolExecutionCompleted, ToolExecutionSuspended, UsageRecorded
from steptrail.hooks import Critique, SelfCritic
from steptrail.models import ModelUsage, PriceTable, Usage
from steptrail.testing import Reply, ScriptedModel, call, say
from steptrail.tools import SubagentTool
from tests.runner.families import asks, look
from tests.runner.kit import Crash, again_on, crash_at, run, trail_of

PRICES = PriceTable.of(
    {"large": {"input": 10, "output": 10}, "small": {"input": 1, "output": 1}, "judge": {"input": 100, "output": 100}},
    version="2026-11",
)
LARGE, SMALL, JUDGE = Decimal("0.00015"), Decimal("0.000015"), Decimal("0.0015")
"""A reply of the script is 10 tokens in and 5 out."""


def reader(*script: Reply) -> Agent:
    return AgentBuilder("reader").with_model(ScriptedModel(script, name="small")).with_tools(look).build()


def parent(child: Agent, *script: Reply, most: Decimal | str = "1") -> Agent:
    model = ScriptedModel(script, name="large")
    tools = [SubagentTool(child, name="reader")]
    return AgentBuilder("boss").with_model(model).with_tools(*tools).with_max_cost(most, prices=PRICES).build()


async def test_what_a_subagent_asked_is_priced_by_its_own_model() -> None:
    ran = await run(parent(reader(call("look"), "It says 42."), asks("reader", "go"), "Done."))
    assert ran.ending == ("completed", "completed")
    assert ran.result.cost is not None
    assert (ran.result.cost.usd, ran.result.cost.is_complete) == (2 * LARGE + 2 * SMALL, True)
    assert [(each.asked_for, each.usage.total) for each in ran.result.state.model_usage] == [
        ("large", 30),
        ("small", 30),
    ]


async def test_the_limit_counts_the_money_of_the_whole_tree() -> None:
    child = reader(call("look"), "It says 42.")
    ran = await run(parent(child, asks("reader", "go"), "Never said.", most=LARGE + 2 * SMALL))
    assert ran.ending == ("completed", "guard")
    assert "Cost limit reached: 0.00018/0.000180 USD" in ran.why.verdict


async def test_the_models_of_subagents_of_subagents_reach_the_top() -> None:
    middle = parent(reader(call("look"), "found"), asks("reader", "go"), "found it")
    ran = await run(parent(middle, asks("reader", "go"), "Done."))
    assert ran.result.cost is not None
    assert (ran.result.cost.usd, ran.result.cost.is_complete) == (4 * LARGE + 2 * SMALL, True)


async def test_a_subagent_that_does_not_say_what_it_used_leaves_the_cost_open() -> None:
    ran = await run(parent(reader(say("found", usage=Usage())), asks("reader", "go"), "Never said."))
    assert ran.ending == ("completed", "guard")
    assert "replies that do not say what they used: 1" in ran.why.verdict


@pytest.mark.parametrize("crash", range(1, 9))
async def test_a_crash_after_any_commit_bills_each_model_once(crash: int) -> None:
    agent = parent(reader(call("look"), "It says 42."), asks("reader", "go"), "Done.")
    async with trail_of(reach=crash_at("after-append", crash)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        result = await again_on(trail).run(agent, "go", session="s")
        assert result.cost is not None
        assert (result.output, result.cost.usd, result.cost.is_complete) == ("Done.", 2 * LARGE + 2 * SMALL, True)


async def test_what_a_judge_asked_is_priced_by_its_own_model() -> None:
    critic = SelfCritic(ScriptedModel(["REVISE: shorter", "APPROVE"], name="judge"))
    model = ScriptedModel(["Long.", "Short."], name="large")
    agent = AgentBuilder("poet").with_model(model).with_capability(critic).with_max_cost(1, prices=PRICES).build()
    ran = await run(agent)
    assert (ran.ending, ran.result.output) == (("completed", "completed"), "Short.")
    assert ran.result.cost is not None
    assert (ran.result.cost.usd, ran.result.cost.is_complete) == (2 * LARGE + 2 * JUDGE, True)
    assert [event.usage.models[0].asked_for for event in ran.all(UsageRecorded)] == ["judge", "judge"]


@pytest.mark.parametrize(
    ("models", "usd", "unattributed"),
    [((ModelUsage(asked_for="judge", usage=Usage(input=15)),), LARGE + JUDGE, 0), ((), LARGE, 15)],
)
async def test_a_judge_of_ones_own_may_name_its_models_and_else_its_tokens_have_no_price(
    models: tuple[ModelUsage, ...], usd: Decimal, unattributed: int
) -> None:
    def judge(task: str, answer: str) -> Critique:
        del task, answer
        return Critique(approved=True, usage=Usage(input=15), models=models)

    builder = AgentBuilder("poet").with_model(ScriptedModel(["A line."], name="large")).with_prices(PRICES)
    ran = await run(builder.with_capability(SelfCritic(judge)).build())
    assert ran.result.cost is not None
    assert (ran.result.cost.usd, ran.result.cost.unattributed) == (usd, unattributed)


async def test_the_bill_of_a_call_stands_in_its_end() -> None:
    ran = await run(parent(reader("It says 42."), asks("reader", "go"), "Done."))
    billed = ran.one(ToolExecutionCompleted).usage
    assert billed is not None
    assert (billed.total, [(each.asked_for, each.usage.total) for each in billed.models]) == (15, [("small", 15)])
    assert ran.all(ToolExecutionSuspended) == []
