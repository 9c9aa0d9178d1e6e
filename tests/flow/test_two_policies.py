"""Nodes with two settings that meet: each of them holds as it does alone."""

from steptrail.workflow import RunOptions, Workflow
from tests.flow.kit import World
from tests.runner.kit import trail_of


async def test_a_map_whose_items_wait_for_people_takes_no_place_of_those_that_run() -> None:
    world = World()
    flow = (
        Workflow("t")
        .map("m", over="input", tool=world.tool(approval=True), args={"name": "{{ item }}"})
        .function("beside", world.function("beside"))
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, ["a", "b"], session="f", options=RunOptions(concurrency=1, longest_wait=0.0))
        assert [question.node for question in await trail.inbox()] == ["m"]
    assert world.done == {"beside": 1}
