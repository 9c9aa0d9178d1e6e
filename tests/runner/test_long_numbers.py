"""Whole numbers of more than 64 bits, which JSON has and models, tools and callers give, stop no run and no view."""

import json
from typing import Annotated

import pytest
from pydantic import Field

from steptrail import ToolEffect, tool
from steptrail.events import InferenceFailed
from steptrail.models import PriceTable, Usage
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.fold import envelopes_of
from steptrail.serialization import SlimAgentStateSerializer, SlimSerializationConfig
from steptrail.testing import Recording, ReplayMismatch, call, replay, say
from tests.runner.kit import agent_of, run, trail_of

LONG = 10**30


@tool(effect=ToolEffect.READ)
def bounded(number: Annotated[int, Field(le=LONG)]) -> int:
    """Return a number that has a long bound."""
    return number


@tool(effect=ToolEffect.READ)
def usual(number: int = LONG) -> int:
    """Return a number that is long unless another is given."""
    return number


async def test_a_tool_whose_schema_names_a_long_number_is_offered_and_called() -> None:
    agent = agent_of([call("bounded", number=LONG), call("usual"), "done"]).with_tools(bounded, usual).build()
    ran = await run(agent)
    assert ran.ending == ("completed", "completed")
    assert [each.result for step in ran.result.state.steps for each in step.tool_executions] == [LONG, LONG]


@pytest.mark.parametrize(
    "config",
    [SlimSerializationConfig.minimal(), SlimSerializationConfig.standard(), SlimSerializationConfig.full()],
    ids=["minimal", "standard", "full"],
)
async def test_a_long_number_is_in_the_slim_document(config: SlimSerializationConfig) -> None:
    agent = agent_of([call("bounded", number=LONG), "done"]).with_tools(bounded).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s", metadata={"order": LONG})
    document = json.loads(json.dumps(SlimAgentStateSerializer(config).serialize(result.state)))
    assert document["metadata"] == ({"order": LONG} if config.include_metadata else {})


async def test_a_long_argument_is_broadcast_and_a_replay_that_differs_shows_it() -> None:
    async with trail_of() as trail:
        agent = agent_of([call("bounded", number=LONG), "done"]).with_tools(bounded)
        await trail.run(agent.build(), "go", session="s")
        history = await trail.session("s").history()
    told = [json.loads(each.to_json()) for each in envelopes_of("s", history, BroadcastConfig.debug())]
    assert str(LONG) in json.dumps(told)

    @tool(name="bounded", effect=ToolEffect.READ)
    def other(number: Annotated[int, Field(le=LONG + 1)]) -> int:
        """Return a number that has a long bound."""
        return number

    with pytest.raises(ReplayMismatch, match=str(LONG + 1)):
        await replay(agent_of([]).with_tools(other).build(), Recording("s", history))


@pytest.mark.parametrize("tokens", [2**63 - 1, 2**63, 10**45])
async def test_a_usage_that_nobody_can_count_fails_its_call_and_has_no_cost(tokens: int) -> None:
    prices = PriceTable.of({"*": {"input": "3", "output": "15"}}, version="1")
    ran = await run(agent_of([say("done", usage=Usage(input=tokens))]).with_prices(prices).build())
    if tokens < 2**63:
        assert str(ran.result.cost) == "27670116110564.327421 USD"
    else:
        assert ran.ending == ("failed", "error")
        assert "more tokens than 64 bits" in ran.one(InferenceFailed).error.message
