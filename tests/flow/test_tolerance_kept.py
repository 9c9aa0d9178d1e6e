"""A tolerant run that changes hands: what it has recorded stays, and what had finished does not run again."""

import asyncio

import pytest

from steptrail import Steptrail
from steptrail.domain.flow.events import NodeFailureRecorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import OwnershipLost
from steptrail.workflow import BuiltWorkflow, FlowResult, RunOptions, Workflow
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.kit import HandClock, again_on, trail_of

TOLERANT = RunOptions(continue_on_error=True, longest_wait=0.0)


def tolerant(world: World) -> BuiltWorkflow:
    """Return a workflow whose second node fails for good, and whose third one holds."""
    world.breaks["ill"] = RuntimeError("no")
    world.holds = "held"
    return (
        Workflow("t", options=TOLERANT)
        .function("well", world.function("well"), output="well")
        .function("ill", world.function("ill"), output="ill")
        .tool("held", world.tool(), args={"name": "held"}, output="held")
        .function("end", world.function("end"))
        .chain("well", "ill", "held", "end")
        .build()
    )


async def checked(trail: Steptrail, world: World, result: FlowResult) -> None:
    """Hold that the failure was recorded once, that only the node that was cut off ran twice, and that all agree."""
    recorded = [event for event in await events_of(trail) if isinstance(event, NodeFailureRecorded)]
    assert [(event.error.node_id, event.error.tier, event.rule) for event in recorded] == [
        ("ill", "run", "continue_on_error")
    ]
    assert result.status is ExecutionStatus.COMPLETED
    assert [error.node_id for error in result.errors] == ["ill"]
    seen = result.envelope.vars
    assert (seen["well"], seen["ill"], seen["ill_error"], seen["held"]) == ("well is done", None, "no", "held is done")
    assert world.done == {"well": 1, "ill": 1, "held": 2, "end": 1}


async def test_a_run_that_is_taken_over_keeps_what_it_has_tolerated_and_runs_nothing_twice() -> None:
    world, clock = World(), HandClock()
    flow = tolerant(world)
    async with trail_of(clock) as trail, asyncio.timeout(60):
        first = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        world.holds = None
        result = await again_on(trail, clock).flow("f").resume(flow, take_over=True)
        world.gate.set()
        with pytest.raises(OwnershipLost):
            await first
        await checked(trail, world, result)


@pytest.mark.parametrize("how", ["worker", "caller"])
async def test_a_run_whose_process_shuts_down_keeps_what_it_has_tolerated_and_runs_nothing_twice(how: str) -> None:
    world, clock = World(), HandClock()
    flow = tolerant(world)
    async with trail_of(clock) as trail, asyncio.timeout(60):
        if how == "worker":
            await trail.start(flow, session="f")
            async with trail.work(flow, grace=0.0):
                await world.entered.wait()
        else:
            running = asyncio.create_task(trail.run(flow, session="f"))
            await world.entered.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        before = await trail.flow("f").state()
        assert [error.node_id for error in before.errors] == ["ill"]
        assert before.is_open
        world.holds = None
        await checked(trail, world, await run_to_rest(again_on(trail, clock), clock, flow))
