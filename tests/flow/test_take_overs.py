"""A process loses the run of a workflow to another one while streams below it, or nodes, are at work."""

import asyncio

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.flow.events import FlowResumed, NodeAttemptCompleted, NodeAttemptSettledLate
from steptrail.errors import CommandRejected, OwnershipLost, SessionBusy
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Workflow
from tests.processes.agents.interposed import Interposed
from tests.processes.scene import once


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_what_a_stream_below_was_billed_is_not_told_again_by_who_lost_the_run(kind: str) -> None:
    store = Interposed()
    owner, other = Steptrail(Environment(store=store)), Steptrail(Environment(store=store.inner))
    flow = _above(kind)

    async def take_over() -> None:
        await other.flow("f").resume(flow, take_over=True)

    store.before_append = once(take_over, NodeAttemptCompleted)
    with pytest.raises(OwnershipLost, match="session 'flow:f' was taken over"):
        await owner.run(flow, session="f")
    assert isinstance([record.event for record in await other.flow("f").events()][-1], NodeAttemptSettledLate)
    state, tree = await other.flow("f").state(), await other.tree("flow:f")
    assert tree.usage.total > 0
    assert state.usage == tree.usage
    await store.close()


async def test_who_lost_the_run_says_so_though_a_node_that_it_cuts_off_has_ended_for_the_new_owner() -> None:
    store, taken = Interposed(), asyncio.Event()
    owner, other = Steptrail(Environment(store=store)), Steptrail(Environment(store=store.inner))

    async def slow(_: object) -> str:
        if not taken.is_set():
            await asyncio.Event().wait()
        return "slow"

    flow = (
        Workflow("f")
        .function("quick", lambda _: "quick")
        .function("slow", slow)
        .merge("all")
        .edge(("quick", "slow"), "all")
        .build()
    )

    async def take_over() -> None:
        taken.set()
        assert (await other.flow("f").resume(flow, take_over=True)).status == "completed"

    store.before_append = once(take_over, NodeAttemptCompleted)
    with pytest.raises(OwnershipLost):
        await owner.run(flow, session="f")
    events = [each.event for each in await other.flow("f").events()]
    late = [event for event in events if isinstance(event, NodeAttemptSettledLate)]
    assert [(each.effect_id, each.output) for each in late] == [("f:1:quick:1", "quick")]
    assert [event.ended_by for event in events if isinstance(event, FlowResumed)] == ["take_over"]
    await store.close()


async def test_another_workflow_is_refused_only_where_it_would_go_on_and_the_owner_keeps_its_run(
    store_url: str,
) -> None:
    at_work, gate = asyncio.Event(), asyncio.Event()

    async def wait(_: object) -> str:
        at_work.set()
        await gate.wait()
        return "done"

    recorded, changed = (Workflow("t").function(name, wait).build() for name in "ab")
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        running = asyncio.create_task(trail.run(recorded, session="f"))
        await at_work.wait()
        with pytest.raises(SessionBusy):
            await other.flow("f").resume(changed, strict=True)
        with pytest.raises(CommandRejected, match="is in_progress: `resume` goes on with it"):
            await other.flow("f").retry(recorded)
        with pytest.raises(CommandRejected, match="not the recorded one: -a, \\+b"):
            await other.flow("f").resume(changed, strict=True, take_over=True)
        with pytest.raises(SessionBusy):
            await other.flow("f").resume(recorded)
        gate.set()
        assert (await running).output == "done"


def _above(kind: str) -> BuiltWorkflow:
    agent = AgentBuilder("below").with_model(ScriptedModel(["Done."])).build()
    written = Workflow("above").agent("a", agent, prompt="go")
    return (written if kind == "agent" else Workflow("top").flow("n", written.build())).build()
