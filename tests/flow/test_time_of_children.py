"""A stream below a node whose time is up: the node fails with `timeout`, however the stream rests."""

import pytest

from steptrail import AgentBuilder
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import FailureClass, FlowTool, Workflow
from tests.flow.kit import LEAVES
from tests.runner.kit import trail_of


@pytest.mark.parametrize("kind", ["agent", "flow", "tool"])
async def test_a_stream_that_waits_in_its_process_until_the_time_of_its_node_is_up_fails_the_node(kind: str) -> None:
    """Its own clock stands still here, so only the timer of the node knows."""
    inner, written = Workflow("inner").human("ask", prompt="Well?").build(), Workflow("t")
    agent = AgentBuilder("a").with_model(ScriptedModel([call("inner")])).with_tools(FlowTool(inner)).build()
    if kind == "agent":
        written.agent("below", agent, prompt="go", timeout=0.1)
    elif kind == "flow":
        written.flow("below", inner, timeout=0.1)
    else:
        written.tool("below", FlowTool(inner), timeout=0.1)
    async with trail_of() as trail:
        result = await trail.run(written.build(), session="f", options=LEAVES)
        below = [row for row in await trail.runs() if row.parent is not None]
    assert (result.status, result.error and result.error.failure) == (ExecutionStatus.FAILED, FailureClass.TIMEOUT)
    assert below
    assert not any(row.is_open for row in below)


async def test_what_an_item_ran_whose_time_was_up_is_stopped_while_the_run_goes_on() -> None:
    """Its question would stand in the inbox until the run ends, and nobody would make use of an answer."""
    inner = Workflow("inner").human("ask", prompt="Well?").build()
    flow = (
        Workflow("t")
        .map("m", over="items", flow=inner, on_item_error="record", item_timeout=0.1)
        .human("end", prompt="Go on?")
        .chain("m", "end")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f", options=LEAVES)
        below = [row for row in await trail.runs() if row.parent is not None]
        assert [question.node for question in await trail.inbox()] == ["end"]
    assert [row.status for row in below] == 2 * [ExecutionStatus.STOPPED]
