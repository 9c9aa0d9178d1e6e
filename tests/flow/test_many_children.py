"""Many streams below one run: each of them costs the run the same, however many others there are."""

import asyncio
from functools import partial
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.flow.events import FlowResumed, NodeAttemptSuspended
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.testing import ScriptedModel, call, say
from steptrail.workflow import BuiltWorkflow, Envelope, RunOptions, Workflow
from tests.flow.kit import LEAVES, calls_of, events_of, named
from tests.runner.families import PATIENCE
from tests.runner.kit import HandClock, trail_of


def over(inner: BuiltWorkflow, count: int) -> BuiltWorkflow:
    """Return a map over the items of the input, each of which runs a workflow at the same time as the others."""
    return Workflow("t", options=LEAVES).map("m", over="items", flow=inner, output="all", concurrency=count).build()


def asking() -> BuiltWorkflow:
    return Workflow("inner").human("ask", prompt="May I?", output="said").build()


async def answer_one(trail: Steptrail) -> str:
    """Answer the oldest question, and return the stream that asks it."""
    asked = [each for each in await trail.inbox() if each.stream.startswith("flow:") and each.stream != "flow:f"]
    stream = asked[-1].stream
    await trail.flow(stream.partition(":")[2]).answer("ask", approved=True, by="ana")
    return stream


async def tries_since(trail: Steptrail, before: int) -> int:
    """Return how many tries of items have begun behind so many events."""
    return named((await events_of(trail))[before:]).count("node.attempt.started")


async def test_a_resume_looks_after_those_children_alone_that_go_on() -> None:
    flow = over(asking(), 4)
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"items": [1, 2, 3, 4]}, session="f", options=LEAVES)
        for left in (3, 2, 1, 0):
            stream, before = await answer_one(trail), result.state.version
            if left == 3:
                result = await trail.run(flow, vars={"items": [1, 2, 3, 4]}, session="f", options=LEAVES)
            else:
                result = await trail.flow("f").resume(flow)
            assert await tries_since(trail, before) == 1
            assert len(result.state.tasks) == left
            (resumed,) = [event for event in (await events_of(trail))[before:] if isinstance(event, FlowResumed)]
            assert resumed.moved == (stream,)
    assert result.status is ExecutionStatus.COMPLETED
    assert [each["approved"] for each in result.output] == [True] * 4


async def test_a_resume_before_anybody_has_answered_looks_after_no_child() -> None:
    flow = over(asking(), 2)
    async with trail_of() as trail:
        before = (await trail.run(flow, vars={"items": [1, 2]}, session="f", options=LEAVES)).state.version
        result = await trail.flow("f").resume(flow)
        assert result.status is ExecutionStatus.WAITING
        assert await tries_since(trail, before) == 0
        assert await trail.due() == []


async def test_a_child_that_waits_for_one_below_it_goes_on_when_that_does() -> None:
    middle = Workflow("middle").flow("below", asking(), output="said").build()
    flow = over(middle, 3)
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"items": [1, 2, 3]}, session="f", options=LEAVES)
        for left in (2, 1, 0):
            before = result.state.version
            await answer_one(trail)
            result = await trail.flow("f").resume(flow)
            assert (await tries_since(trail, before), len(result.state.tasks)) == (1, left)
    assert result.status is ExecutionStatus.COMPLETED


async def test_an_agent_below_goes_on_when_a_person_has_answered_or_its_question_has_expired() -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    clock = HandClock()
    agent = AgentBuilder("payer").with_model(ScriptedModel([call("pay"), say("done")])).with_tools(pay).build()
    flow = Workflow("t", options=LEAVES).map("m", over="items", agent=agent, prompt="go", output="all", concurrency=2)
    async with trail_of(clock) as trail:
        result = await trail.run(flow.build(), vars={"items": [1, 2]}, session="f", options=LEAVES)
        first, second = await trail.inbox()
        await trail.session(first.stream.partition(":")[2]).approve(first.id, by="ana")
        before = result.state.version
        result = await trail.flow("f").resume(flow.build())
        assert (await tries_since(trail, before), len(result.state.tasks)) == (1, 1)
        assert second.expires_at is not None
        clock.advance(86_400.0 * 30)
        result = await trail.flow("f").resume(flow.build())
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, ["done", "done"])


async def test_a_resume_looks_after_a_child_that_was_paused_and_goes_on_with_it() -> None:
    flow = over(asking(), 2)
    async with trail_of() as trail:
        before = (await trail.run(flow, vars={"items": [1, 2]}, session="f", options=LEAVES)).state.version
        (paused, _) = [each.stream.partition(":")[2] for each in await trail.inbox()]
        await trail.flow(paused).pause(by="ana")
        await trail.flow("f").resume(flow)
        assert await tries_since(trail, before) == 1
        assert (await trail.flow(paused).state()).status is ExecutionStatus.WAITING


async def test_a_run_that_has_grown_since_the_look_looks_after_all_below(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Workflow("t", options=LEAVES).map("m", over="items", flow=asking(), output="all", concurrency=3)
    flow, has_looked = both.human("own", prompt="And I?", output="mine").build(), False
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2, 3]}, session="f", options=LEAVES)
        await answer_one(trail)
        index = trail.store.index

        async def looked(asked: Any) -> Any:
            nonlocal has_looked
            found = await index(asked)
            if not has_looked and asked.streams is not None and len(asked.streams) == 3:
                has_looked = True
                await answer_one(trail)
                await trail.flow("f").answer("own", approved=True, by="ana")
            return found

        monkeypatch.setattr(trail.store, "index", looked)
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.WAITING
        assert has_looked
        assert (len(await trail.inbox()), await trail.due()) == (1, [])


async def test_what_people_are_asked_is_told_by_the_same_calls_however_many_children_rest() -> None:
    called = list[int]()
    for count in (20, 100):
        async with trail_of() as trail:
            await trail.run(over(asking(), count), vars={"items": [0] * count}, session="f", options=LEAVES)
            records = await trail.flow("f").events()
        last = max(at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptSuspended))
        state = FLOW.evolve_all(FLOW.initial("flow:f"), records[:last])
        standing, calls = calls_of(partial(FLOW.control.standing, state))
        assert (standing.state, standing.waits) == ("working", ())
        called.append(calls)
    assert called[0] == called[1]


async def test_the_children_at_work_are_asked_to_pause_before_those_that_rest() -> None:
    async with trail_of() as trail:
        await trail.run(over(asking(), 3), vars={"items": [1, 2, 3]}, session="f", options=LEAVES)
        records = await trail.flow("f").events()
    last = max(at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptSuspended))
    state = FLOW.evolve_all(FLOW.initial("flow:f"), records[:last])
    (at_work,) = [task.stream for task in state.tasks if task.phase is TaskPhase.RUNNING]
    children = [*FLOW.control.children(state)]
    assert (children[0], len(children)) == (at_work, 3)
    assert state.tasks[0].stream != at_work


async def test_a_run_that_has_failed_reads_no_child_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(seen: Envelope) -> int:
        return 1 // int(seen.input)

    inner = Workflow("inner").function("work", work).build()
    flow = Workflow("t").map("m", over="items", flow=inner, input="{{ item }}", output="all").build()
    given, streams = {"items": [1, 1, 1, 0]}, list[str]()
    async with trail_of() as trail:
        assert (await trail.run(flow, vars=given, session="f")).status is ExecutionStatus.FAILED
        read = trail.store.read

        def noted(stream: str, **how: Any) -> Any:
            streams.append(stream)
            return read(stream, **how)

        monkeypatch.setattr(trail.store, "read", noted)
        assert (await trail.run(flow, vars=given, session="f")).stored
    assert set(streams) == {"flow:f"}


@pytest.mark.usefixtures("soon")
async def test_the_children_that_are_stopped_with_a_run_do_not_each_read_its_whole_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, all_there, found = list[object](), asyncio.Event(), 0

    async def work(seen: Envelope) -> None:
        if seen.input == "hold":
            held.append(seen)
            if len(held) == 8:
                all_there.set()
            await asyncio.Event().wait()

    inner = Workflow("inner").function("work", work).build()
    flow = Workflow("t").map("m", over="items", flow=inner, input="{{ item }}", concurrency=8).build()
    given, options = {"items": ["go"] * 60 + ["hold"] * 8}, RunOptions(stop_grace=0.0)
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(flow, vars=given, session="f", options=options))
        async with asyncio.timeout(PATIENCE):
            await all_there.wait()
        read = trail.store.read

        async def counted(stream: str, **how: Any) -> Any:
            nonlocal found
            page = await read(stream, **how)
            found += len(page.records) if stream == "flow:f" else 0
            return page

        monkeypatch.setattr(trail.store, "read", counted)
        await trail.flow("f").stop(by="ana")
        assert (await running).status is ExecutionStatus.STOPPED
        monkeypatch.undo()
        assert found < 3 * len(await events_of(trail))


async def test_a_worker_that_ends_pauses_what_is_at_work_below_its_runs_and_leaves_alone_what_waits() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(seen: Envelope) -> None:
        if seen.input == "hold":
            begun.set()
            await go_on.wait()

    inner = Workflow("inner").function("hold", hold, output="held").human("ask", prompt="May I?")
    inner = inner.chain("hold", "ask")
    flow = Workflow("t").map("m", over="items", flow=inner.build(), input="{{ item }}", concurrency=3).build()
    async with trail_of() as trail:
        await trail.start(flow, vars={"items": ["go", "go", "hold"]}, session="f", options=LEAVES)
        async with asyncio.timeout(PATIENCE):
            async with trail.work(flow, grace=PATIENCE) as worker:
                await begun.wait()
                while len(await trail.inbox()) < 2:
                    await asyncio.sleep(0.001)
                (at_work,) = [row for row in await trail.runs(status="in_progress") if row.parent is not None]
                draining = asyncio.create_task(worker.drain())
                while (await trail.flow(at_work.session_id).state()).pause_request is None:
                    await asyncio.sleep(0.001)
                go_on.set()
                await draining
        statuses = sorted(row.status.value for row in await trail.runs() if row.parent is not None)
    assert statuses == ["paused", "waiting", "waiting"]
