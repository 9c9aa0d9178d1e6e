"""A fork of a run of a workflow, as lists, read models, explanations, drawings, erasing and workers meet it."""

import asyncio
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.errors import CommandRejected, ErasureRefused, SessionErased
from steptrail.interfaces.python.recording import FlowRecording
from steptrail.interfaces.python.redaction import redact_flow
from steptrail.projections.flow_waterfall import flow_waterfall
from steptrail.projections.lifecycle.flow_fold import flow_lifecycle_events
from steptrail.projections.lifecycle.flow_runs import FlowExecutionCompleted
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.names import Own
from steptrail.projections.waterfall import Rest, WaterfallRow
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, RetryPolicy, RunOptions, Workflow
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of

WAITS = RunOptions(longest_wait=0.0)
CUT = "node.attempt.interrupted"


def asking() -> BuiltWorkflow:
    """Return a workflow of an agent, a question and a node that works once the question is answered."""
    critic = AgentBuilder("critic").with_model(ScriptedModel(["fine"] * 9)).build()
    return (
        Workflow("ask")
        .function("plan", lambda _: "cats", output="plan")
        .agent("critic", critic, prompt="go", output="said")
        .human("ask", prompt="Well?", output="answer")
        .function("end", lambda _: 1, output="end")
        .chain("plan", "critic", "ask", "end")
        .build()
    )


async def answered(trail: Steptrail, flow: BuiltWorkflow, session: str) -> None:
    await trail.flow(session).answer("ask", approved=True, by="ana")
    assert (await trail.flow(session).resume(flow)).status == "completed"


async def forked(trail: Steptrail, flow: BuiltWorkflow) -> Any:
    """Fork a run that asks, and let the fork come to its end."""
    await trail.run(flow, session="f", options=WAITS, metadata={"tenant": "acme", "tags": {"user": "u7"}})
    fork = await trail.flow("f").fork(session="g", by="ana", reason="another answer", metadata={"tags": {"arm": "b"}})
    return fork


async def test_lists_and_read_models_have_a_fork_with_what_it_did_itself(store_url: str) -> None:
    flow = asking()
    async with Steptrail.open(store_url) as trail:
        fork = await forked(trail, flow)
        rows = {row.stream: row for row in await trail.runs() if row.parent is None}
        assert rows["flow:g"].fork_of == "flow:f"
        assert (rows["flow:g"].status, rows["flow:g"].standing, rows["flow:g"].due_at) == ("paused", "paused", None)
        assert (rows["flow:g"].tenant, rows["flow:g"].name, rows["flow:g"].steps) == ("acme", "ask", 2)
        assert (await trail.tree("flow:g")).children == ()
        await fork.resume(flow)
        await answered(trail, flow, "g")
        counted = await trail.views.sql(
            "SELECT stream, status, tenant, name, steps, tree_tokens, fingerprint IS NOT NULL, approvals "
            "FROM executions WHERE kind = 'flow' ORDER BY execution"
        )
        bill = (await trail.flow("f").result()).usage.total
        assert [tuple(row) for row in counted.rows] == [
            ("flow:f", "waiting", "acme", "ask", 2, bill, True, 1),
            ("flow:g", "completed", "acme", "ask", 2, 0, True, 1),
        ]
        visits = await trail.views.sql("SELECT node, visit, status FROM visits ORDER BY execution, number, node")
        assert [tuple(row) for row in visits.rows][-2:] == [("ask", 1, "completed"), ("end", 1, "completed")]
        rests = await trail.views.sql("SELECT kind, ending FROM rests ORDER BY execution, version")
        assert [tuple(row) for row in rests.rows][1:3] == [("pause", "resumed"), ("human", "answered")]
        assert (await fork.result()).usage.total == bill
        await answered(trail, flow, "f")


async def test_why_the_drawing_and_the_bars_of_a_fork_include_the_past_that_it_shares() -> None:
    flow = asking()
    async with trail_of() as trail:
        fork = await forked(trail, flow)
        why = await fork.why()
        assert (why.verdict, why.execution_id, why.events, why.waits) == ("paused", "g:1", {"forked": 1}, ())
        assert why.spent.finished_visits == 2
        marks = {node.id: (node.mark, node.ran) for node in (await fork.draw()).nodes}
        assert marks == {"plan": ("ran", 1), "critic": ("ran", 1), "ask": ("untouched", 0), "end": ("untouched", 0)}
        await fork.resume(flow)
        await answered(trail, flow, "g")
        why = await fork.why(execution=1)
        assert (why.execution_id, why.events["finished"]) == ("g:1", len(await fork.events()))
        assert (await fork.why(execution="g:1")).verdict == why.verdict
        marks = {node.id: (node.mark, node.ran) for node in (await fork.draw()).nodes}
        assert set(marks.values()) == {("ran", 1)}
        history = await fork.history()
        rows = [(row.name, row.said) for row in flow_waterfall(history).rows if isinstance(row, WaterfallRow)]
        assert rows == [("plan", ""), ("critic", ""), ("ask", "begins anew"), ("ask", ""), ("end", "")]
        assert all(row.ended is not None for row in flow_waterfall(history).rows)
        events = flow_lifecycle_events("g", history)
        assert type(events[0]).__name__ == "FlowExecutionResumed"
        assert isinstance(events[-1], FlowExecutionCompleted)
        assert events[-1].visits == 4
        spans = SpanFold("flow:g").apply(await fork.events())
        assert {span.name for span in spans if span.name.startswith("node")} == {"node ask", "node end"}
        assert {span.attributes[Own.EXECUTION_ID] for span in spans if span.name.startswith("node")} == {"g:1"}


async def test_a_source_is_erased_with_its_forks_or_not_at_all(store_url: str) -> None:
    flow = asking()
    async with Steptrail.open(store_url) as trail:
        fork = await forked(trail, flow)
        await trail.flow("f").stop(by="ana")
        await fork.stop(by="ana")
        with pytest.raises(ErasureRefused) as caught:
            await trail.erase("flow:f", by="ana", reason="test")
        assert "flow:g" in caught.value.needed_by
        assert not (await trail.flow("g").state()).is_open
        await trail.erase("flow:f", by="ana", reason="test", cascade=True)
        with pytest.raises(SessionErased):
            await fork.state()
        with pytest.raises(SessionErased):
            await trail.flow("f").fork(session="h", by="ana")


async def test_a_worker_goes_on_with_a_fork_once_its_pause_is_lifted() -> None:
    flow = Workflow("t").function("a", lambda _: 1, output="a").function("b", lambda _: 2, output="b").chain("a", "b")
    built = flow.build()
    async with trail_of() as trail:
        await trail.run(built, session="f")
        at = next(r.version for r in await trail.flow("f").events() if r.event.TYPE == "node.completed.v1")
        fork = await trail.flow("f").fork(at=at, session="g", by="ana")
        assert [row.stream for row in await trail.due()] == []
        await fork.unpause(by="ana")
        assert [row.stream for row in await trail.due()] == ["flow:g"]
        async with asyncio.timeout(60), trail.work(built), fork.follow() as following:
            async for _ in following:
                pass
        assert (await fork.result()).envelope.vars == {"a": 1, "b": 2}
        with pytest.raises(CommandRejected, match="exists already"):
            await trail.flow("f").fork(session="g", by="ana")


async def test_a_failure_that_did_not_come_to_its_end_is_no_part_of_what_is_told_of_a_fork() -> None:
    def wrong(_: object) -> None:
        raise ValueError("wrong")

    async with trail_of() as trail:
        await trail.run(Workflow("t").function("a", wrong).build(), session="f")
        (at,) = [each.version for each in await trail.flow("f").events() if each.event.TYPE == "node.failed.v1"]
        why = await (await trail.flow("f").fork(at=at, session="g")).why()
        assert (why.verdict, why.error, why.rule) == ("paused", None, None)


async def test_of_what_begins_anew_in_a_fork_no_tries_are_told_but_those_of_all_else_are() -> None:
    clock = HandClock()
    read = Workflow("t").function("a", lambda _: 1).function("b", lambda _: 2).chain("a", "b").build()
    async with trail_of(clock) as trail:
        for reach in (crash_at("after-node"), crash_at("after-node", 2)):
            with pytest.raises(Crash):
                await again_on(trail, clock, reach).run(read, session="f")
        await trail.run(read, session="f")
        cut = [record.version for record in await trail.flow("f").events() if record.event.TYPE.startswith(CUT)]
        forks = [await trail.flow("f").fork(at=at) for at in cut]
        why = [await fork.why() for fork in forks]
        await forks[1].resume(read)
        rows = flow_waterfall(await forks[1].history()).rows
    assert [[each.node for each in one.interrupted] for one in why] == [[], ["a"]]
    bars = [[len(lane.bars) for lane in row.lanes] for row in rows if isinstance(row, WaterfallRow)]
    assert bars == [[2], [1], [1]]


async def test_the_tries_of_an_execution_that_had_failed_are_told_of_its_forks() -> None:
    def wrong(_: object) -> None:
        raise ValueError("wrong")

    failing = Workflow("t").function("a", wrong).build()
    async with trail_of() as trail:
        await trail.run(failing, session="f")
        failed = await trail.flow("f").fork()
        await trail.run(asking(), "another input", session="f", options=WAITS)
        open_again = await trail.flow("f").fork()
        assert [node.mark for node in (await failed.draw()).nodes] == ["failed"]
        told = [await failed.why(), await open_again.why(execution=1), await open_again.why()]
    assert [[each.outcome for each in why.attempts] for why in told] == [["failed (error)"], ["failed (error)"], []]


async def test_the_wait_of_the_source_ends_with_the_fork_which_is_paused() -> None:
    flow = asking()
    async with trail_of() as trail:
        fork = await forked(trail, flow)
        await fork.resume(flow, options=WAITS)
        for records in (await fork.history(), await fork.events()):
            rests = [row for row in flow_waterfall(records).rows if isinstance(row, Rest)][-2:]
            assert [(rest.kind, rest.by, rest.ended is None) for rest in rests] == [
                ("paused", "ana", False),
                ("human", None, True),
            ]


async def test_a_fork_of_what_was_stopped_still_says_who_stopped_it() -> None:
    flow, agent = asking(), AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=WAITS)
        await trail.start(agent, "go", session="s")
        for handle in (trail.flow("f"), trail.session("s")):
            await handle.stop(by="ana", reason="enough")
            why, stopped_by = await handle.why(), (await handle.state()).stopped_by
            fork = await handle.fork()
            assert stopped_by is not None
            assert ((await fork.why()).verdict, (await fork.state()).stopped_by) == (why.verdict, stopped_by)


async def test_the_workflow_that_a_fork_repeats_is_redacted_and_known_to_the_rows_of_its_retry() -> None:
    @tool
    def login(token: str) -> int:
        """Log in."""
        raise ValueError("wrong")

    flow = Workflow("t").tool("in", login, args={"token": "secret"}, retry=RetryPolicy(max_attempts=1)).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        fork = await trail.flow("f").fork(session="g")
        recording = FlowRecording("g", "t", await fork.history())
        assert b"secret" in b"".join(recording.lines())
        assert b"secret" not in b"".join(redact_flow(recording, ["token"]).lines())
        await fork.retry(flow)
        counted = await trail.views.sql("SELECT count(*), count(fingerprint) FROM executions")
        assert [tuple(row) for row in counted.rows] == [(2, 2)]
