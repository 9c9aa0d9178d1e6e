"""The longer examples of how workflows are written, run as they are written."""

import pytest

from steptrail.domain.flow.events import NodeOpened, NodeRetryScheduled
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.workflow import FailureClass, RunOptions
from tests.flow.design import pipeline, research
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.kit import HandClock, trail_of

LEAVES = RunOptions(longest_wait=0.0)


GIVEN = {"path": "a.md", "owner": "ana"}
INDEX = "index short for: Summarise:\nthe text of a.md"


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_document_is_published_after_a_yes_and_a_no_is_a_stop(is_approved: bool) -> None:
    world, clock = World(), HandClock()
    world.fails[INDEX] = [ConnectionError("the index is away"), None]
    world.breaks["notify ana"] = ConnectionError("the mail is away")
    flow = pipeline(world)
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, GIVEN, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(0.5)
        result = await trail.flow("f").resume(flow)
        assert result.status is ExecutionStatus.WAITING
        assert [task.request.prompt for task in result.state.tasks if task.request] == ["Publish On tea?"]
        again = await trail.run(flow, GIVEN, session="f", options=LEAVES)
        assert again.status is ExecutionStatus.WAITING
        await trail.flow(result.id).answer("review", approved=is_approved, by="ana")
        await trail.flow(result.id).resume(flow)
        result = await run_to_rest(trail, clock, flow, GIVEN)
        waits = [event.delay_seconds for event in await events_of(trail) if isinstance(event, NodeRetryScheduled)]
    before = {"parse": 1, INDEX: 2}
    if not is_approved:
        assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.GUARD)
        assert result.error is not None
        assert (result.error.node_id, result.error.failure) == ("approved", FailureClass.BLOCKED)
        assert world.done == before
        return
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, "release 17 is done")
    assert [(error.node_id, error.failure) for error in result.errors] == [("notify", FailureClass.UNAVAILABLE)]
    assert world.done == {**before, "release 17": 1, "notify ana": 3}
    assert waits == [0.5, 1.0, 2.0]


async def test_nobody_answers_and_the_pipeline_fails_a_day_later() -> None:
    world, clock = World(), HandClock()
    flow = pipeline(world)
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, GIVEN, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(86_401)
        result = await trail.flow("f").resume(flow)
    assert result.error is not None
    assert (result.error.node_id, result.error.failure) == ("review", FailureClass.EXPIRED)
    assert world.done == {"parse": 1, INDEX: 1}


async def test_a_research_goes_round_until_its_report_is_long_enough() -> None:
    world, clock = World(), HandClock()
    world.breaks["search why"] = ValueError("no such word")
    away = ConnectionError("the database is away")
    world.fails["database"] = [away, away, None]
    flow = research(world, "too short", "x" * 401)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, {"topic": "tea"})
        opened = [event.node for event in await events_of(trail) if isinstance(event, NodeOpened)]
        below = [row for row in await trail.runs() if row.parent is not None]
    assert result.status is ExecutionStatus.COMPLETED
    seen = result.envelope.vars
    assert (seen["report"], seen["critique"]) == ("x" * 401, "Sources.")
    assert seen["hits"] == ["search who is done", None, "search when is done"]
    assert (seen["facts"], "facts_error" in seen) == ("database is done", False)
    assert sorted(opened) == sorted(
        [*(2 * ["plan", "search", "critic", "facts", "join", "report", "good"]), "old_facts", "done"]
    )
    assert world.done["database"] == 3
    assert (world.done["archive"], len(below)) == (1, 2)
    assert sorted((error.node_id, error.visit, error.item) for error in result.errors) == [
        ("facts", 1, None),
        ("search", 1, 1),
        ("search", 2, 1),
    ]
