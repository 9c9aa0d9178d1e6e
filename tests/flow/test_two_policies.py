"""Nodes with two settings that meet: each of them holds as it does alone."""

import pytest

from steptrail.domain.json_value import JsonValue
from steptrail.workflow import Cache, RunOptions, Workflow
from tests.flow.kit import LEAVES, World
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


@pytest.mark.parametrize("edited", [0, 1])
async def test_a_cache_holds_nothing_of_arguments_that_a_person_has_made(edited: int) -> None:
    world = World()
    act = world.tool(approval=True)
    flow = Workflow("t").map("m", over="items", tool=act, args={"name": "a"}, cache=Cache(), output="all").build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": ["x", "x"]}, session="f", options=LEAVES)
        for place in range(2):
            (question,) = await trail.inbox()
            arguments: dict[str, JsonValue] | None = {"name": "b"} if place == edited else None
            await trail.flow("f").approve(question.id, by="ana", arguments=arguments)
            await trail.flow("f").resume(flow)
        state = await trail.flow("f").state()
    assert state.output == (["b is done", "a is done"] if edited == 0 else ["a is done", "b is done"])
