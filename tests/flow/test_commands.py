"""Commands to a run that come twice, too early, too late or with another key, and what is told of the run meanwhile."""

import asyncio
from pathlib import Path

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import SessionStarted
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected, ConfigurationError, SessionBusy, SessionNotFound
from steptrail.interfaces.cli.main import main
from steptrail.projections.flow_kind import PROJECTIONS_OF_FLOWS
from steptrail.runtime.kernel.control import StreamControl
from steptrail.workflow import (
    BuiltWorkflow,
    Envelope,
    FailureClass,
    FlowResult,
    RetryPolicy,
    RunOptions,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


def asking() -> BuiltWorkflow:
    return Workflow("asks").human("ask", prompt="Well?", output="said").noop("end").chain("ask", "end").build()


async def test_an_open_run_takes_no_other_input_and_a_new_one_must_be_new() -> None:
    flow = asking()
    async with trail_of() as trail:
        await trail.run(flow, 1, session="f", options=LEAVES)
        assert (await trail.run(flow, 1, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        with pytest.raises(CommandRejected, match="another input"):
            await trail.run(flow, 2, session="f")
        with pytest.raises(CommandRejected):
            await trail.start(flow, 2, session="f")
        await trail.flow("f").stop(by="ana")
        with pytest.raises(CommandRejected, match="exists already"):
            await trail.run(flow, 2, session="f", new=True)
        again = await trail.run(flow, 2, session="f", metadata={"tag": "x"}, options=LEAVES)
        assert (again.execution_id, dict(again.state.metadata)) == ("f:2", {"tag": "x"})


async def test_what_has_not_begun_or_is_over_is_not_paused_stopped_or_retried() -> None:
    flow = Workflow("t").noop("a").build()
    async with trail_of() as trail:
        handle = trail.flow("f")
        for command in (handle.pause(by="a"), handle.stop(by="a"), handle.resume(flow), handle.retry(flow)):
            with pytest.raises(SessionNotFound):
                await command
        await trail.run(flow, session="f")
        for refused in (handle.pause(by="a"), handle.stop(by="a"), handle.retry(flow)):
            with pytest.raises(CommandRejected):
                await refused
        assert (await handle.resume(flow)).status is ExecutionStatus.COMPLETED


async def test_a_command_with_a_key_counts_once_and_one_without_does_nothing_twice() -> None:
    flow = asking()
    async with trail_of() as trail:
        handle = trail.flow("f")
        await trail.run(flow, session="f", options=LEAVES)
        for _ in range(2):
            assert (await handle.pause(by="ana", key="p")).status is ExecutionStatus.PAUSED
        assert (await handle.pause(by="bob")).status is ExecutionStatus.PAUSED
        assert "paused by ana" in (await handle.why()).verdict
        with pytest.raises(CommandRejected):
            await handle.retry(flow)
        for _ in range(2):
            assert (await handle.stop(by="ana", key="s")).status is ExecutionStatus.STOPPED
        with pytest.raises(CommandRejected):
            await handle.pause(by="ana", key="s")
        first = await handle.retry(flow, key="r")
        assert (await handle.retry(flow, key="r")).execution_id == first.execution_id == "f:2"


async def test_a_key_that_came_with_another_input_is_refused() -> None:
    flow = Workflow("t").function("a", lambda seen: seen.input).build()
    async with trail_of() as trail:
        assert (await trail.run(flow, 1, key="k")).output == 1
        assert (await trail.run(flow, 1, key="k")).stored
        with pytest.raises(CommandRejected, match="another key"):
            await trail.run(flow, 2, key="k")
        with pytest.raises(CommandRejected, match="another key"):
            await trail.start(flow, 2, key="k")


async def test_a_retry_counts_as_what_it_retries() -> None:
    world = World()
    world.fails["a"] = [ValueError("no"), ValueError("no"), None]
    flow = Workflow("t").function("a", world.function("a")).build()
    async with trail_of() as trail:
        failed = await trail.run(flow, 1, session="f", key="k")
        assert (await trail.flow("f").retry(flow, key="r")).status is ExecutionStatus.FAILED
        assert (await trail.run(flow, 1, session="f", key="k")).execution_id == "f:2"
        await trail.flow("f").requeue()
        with pytest.raises(CommandRejected, match="another input"):
            await trail.run(flow, 2, session="f", key="k")
        gone_on = await trail.run(flow, 1, session="f", key="k")
        assert (gone_on.execution_id, gone_on.status, gone_on.stored) == ("f:3", ExecutionStatus.COMPLETED, False)
        assert (await trail.run(flow, 2, session="f")).execution_id == "f:4"
        for again in (await trail.run(flow, 1, session="f", key="k"), await trail.flow("f").retry(flow, key="r")):
            assert (again.execution_id, again.status) == ("f:3", ExecutionStatus.COMPLETED)
    assert failed.status is ExecutionStatus.FAILED
    assert world.done == {"a": 4}


async def test_an_input_that_came_again_under_a_new_key_is_answered_under_that_key_too() -> None:
    flow = asking()
    async with trail_of() as trail:
        await trail.run(flow, 1, session="f", key="first", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        for stored in (False, True):
            again = await trail.run(flow, 1, session="f", key="second")
            assert (again.execution_id, again.status, again.stored) == ("f:1", ExecutionStatus.COMPLETED, stored)
        with pytest.raises(CommandRejected, match="another key"):
            await trail.run(flow, 2, session="f", key="second")
        assert (await trail.run(flow, 1, session="f", key="third")).execution_id == "f:2"


@pytest.mark.parametrize("first", ["first", None])
async def test_a_start_does_not_take_a_key_that_it_could_not_keep(first: str | None) -> None:
    flow = asking()
    async with trail_of() as trail:
        await trail.start(flow, 1, session="f", key=first)
        assert (await trail.start(flow, 1, session="f", key=first)).id == "f"
        with pytest.raises(CommandRejected, match="f:1 is pending and has this input without this key: `run` goes on"):
            await trail.start(flow, 1, session="f", key="second")
        assert (await trail.start(flow, 1, session="f")).id == "f"
        assert len(await events_of(trail)) == 2


async def test_strict_refuses_a_workflow_of_another_name() -> None:
    old, new = (Workflow(name).human("ask", prompt="?").build() for name in ("t", "u"))
    async with trail_of() as trail:
        await trail.run(old, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        with pytest.raises(CommandRejected, match="the workflow is not the recorded one: name"):
            await trail.flow("f").resume(new, strict=True)


async def test_strict_refuses_another_workflow_also_while_the_run_only_waits() -> None:
    old, new = (Workflow("t").human("ask", prompt=prompt).build() for prompt in ("?", "Well?"))
    async with trail_of() as trail:
        await trail.run(old, session="f", options=LEAVES)
        with pytest.raises(CommandRejected, match="the workflow is not the recorded one: ask"):
            await trail.flow("f").resume(new, strict=True)
        events = await trail.flow("f").events()
        for kept in (await trail.flow("f").resume(old, strict=True), await trail.flow("f").resume(new)):
            assert kept.status is ExecutionStatus.WAITING
        assert await trail.flow("f").events() == events


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_run_that_only_waits_is_returned_as_it_is_however_often_it_is_run(key: str | None) -> None:
    flow = asking()
    async with trail_of() as trail:
        first = await trail.run(flow, 1, session="f", key=key, options=LEAVES)
        for _ in range(3):
            again = await trail.run(flow, 1, session="f", key=key)
            assert (again.status, again.stored) == (ExecutionStatus.WAITING, False)
            assert again.state.version == first.state.version
        await trail.flow("f").answer("ask", approved=True, by="ana")
        assert (await trail.run(flow, 1, session="f", key=key)).status is ExecutionStatus.COMPLETED


async def test_other_options_are_recorded_also_while_the_run_only_waits() -> None:
    flow, other = asking(), RunOptions(longest_wait=0.0, max_visits=7)
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        for options in (other, other):
            assert (await trail.flow("f").resume(flow, options=options)).status is ExecutionStatus.WAITING
        state = await trail.flow("f").state()
        assert state.run is not None
        assert (state.run.options, state.fold.segment) == (other, 2)


@pytest.mark.parametrize(
    ("second", "error", "why"),
    [(2, CommandRejected, "is in_progress and has another input: `resume` goes on"), (1, SessionBusy, "is being run")],
)
async def test_of_two_runs_at_once_under_one_id_one_goes_on_and_the_other_is_told_why_not(
    second: int, error: type[Exception], why: str
) -> None:
    world = World()
    world.holds = "a"
    flow = Workflow("t").function("a", world.function("a")).build()
    async with trail_of() as trail:
        first, other = [asyncio.create_task(trail.run(flow, given, session="f")) for given in (1, second)]
        with pytest.raises(error, match=why):
            await other
        world.gate.set()
        assert (await first).status is ExecutionStatus.COMPLETED
        assert world.done == {"a": 1}


async def test_of_two_retries_at_once_one_is_busy_however_quick_the_other_is() -> None:
    for fails in (1, 3):
        world = World()
        world.fails["a"] = [ConnectionError("away")] * fails
        flow = Workflow("t").function("a", world.function("a")).build()
        async with trail_of() as trail:
            await trail.run(flow, session="f")
            both = [trail.flow("f").retry(flow) for _ in range(2)]
            ended = await asyncio.gather(*both, return_exceptions=True)
            assert {type(each) for each in ended} == {FlowResult, SessionBusy}
            assert world.done == {"a": 2}


async def test_a_retry_of_a_node_that_changed_code_has_no_more_fails_once() -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [ConnectionError("away")]
    again = RetryPolicy(max_attempts=3, backoff=60.0)
    old = Workflow("t").function("a", world.function("a"), retry=again).build()
    new = Workflow("t").function("b", world.function("b")).build()
    async with trail_of(clock) as trail:
        assert (await trail.run(old, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(60)
        result = await trail.flow("f").resume(new)
        assert (result.status, world.done) == (ExecutionStatus.FAILED, {"a": 1})
        assert result.error is not None
        assert (result.error.failure, result.error.attempt) == (FailureClass.CONFIG, 1)


async def test_a_pause_and_a_stop_reach_a_run_whose_worker_died() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, session="f")
        why = await trail.flow("f").why()
        assert why.is_crashed
        assert why.to_dict()["crashed"] is True
        control = trail.flow("f")._control.stream  # pyright: ignore[reportPrivateUsage]
        assert isinstance(control, StreamControl)
        assert (await control.request(Pause(by="ana"))).status is ExecutionStatus.PAUSED
        assert (await control.request(Stop(by="ana"))).status is ExecutionStatus.STOPPED


def test_events_of_a_run_that_never_began_change_nothing() -> None:
    state = initial("f")
    assert (state.run, state.output, state.definition, state.errors) == (None, None, None, ())
    assert (state.usage.total, state.cost, state.active_seconds, state.elapsed_seconds) == (0, None, 0.0, 0.0)
    assert state.envelope == Envelope()
    assert "pending" in repr(state)
    with pytest.raises(ValueError, match="no execution"):
        state.at_work()
    assert evolve_all(state, [Recorded(1, 5, SessionStarted(name="t"))]) != state


async def test_a_workflow_that_asks_no_model_has_no_bill() -> None:
    flow = Workflow("t").noop("a").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        records = await trail.flow("f").events()
        billed = PROJECTIONS_OF_FLOWS.bill.begin()
        assert [billed(record.event) for record in records] == [None] * len(records)


def test_what_only_one_of_both_takes_is_refused_of_the_other() -> None:
    flow = Workflow("t").noop("a").build()

    async def refused() -> None:
        async with trail_of() as trail:
            with pytest.raises(ConfigurationError):
                await trail.run(flow, options={"concurrency": 1})  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
            with pytest.raises(ConfigurationError):
                await trail.run(Workflow("t").noop("a"), 1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]

    asyncio.run(refused())


async def test_an_older_execution_is_explained_by_its_number_or_id() -> None:
    clock, world = HandClock(), World()
    flow = Workflow("t").function("a", world.function("a")).build()
    async with trail_of(clock) as trail:
        world.fails["a"] = [RuntimeError("first")]
        await run_to_rest(trail, clock, flow)
        await trail.flow("f").retry(flow)
        handle = trail.flow("f")
        old, same, new = await handle.why(execution=1), await handle.why(execution="f:1"), await handle.why()
        assert old.verdict == same.verdict
        assert (old.status, new.status, old.is_newest) == (ExecutionStatus.FAILED, ExecutionStatus.COMPLETED, False)
        with pytest.raises(ConfigurationError):
            await handle.why(execution=9)


@pytest.mark.parametrize(
    "how", ["failed", "recorded", "limit", "human", "approval", "step", "parked", "retrying", "stopped", "child"]
)
async def test_the_command_line_tells_why_of_every_way_to_stand(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, url = World(), f"sqlite:///{tmp_path / 'runs.db'}"
    expected, options = "", LEAVES

    @tool(effect=ToolEffect.UNSAFE, approval=how == "approval")
    async def act(name: str) -> str:
        """Act."""
        return await world.do(name)

    written = Workflow("t")
    match how:
        case "failed":
            world.breaks["a"] = ConnectionError("away")
            written.tool("a", world.tool(), args={"name": "a"}, retry=1).noop("later").chain("a", "later")
            expected = "tiers"
        case "recorded":
            world.breaks["a"] = ConnectionError("away")
            written.tool("a", world.tool(), args={"name": "a"}, retry=1, on_error="continue")
            expected = "1 recorded error"
        case "limit":
            written.noop("a")
            expected, options = "waits for", RunOptions(pause_before=("*",), step_timeout=900.0, longest_wait=0.0)
        case "human":
            written.human("a", prompt="Publish?", expires=60.0)
            expected = "Publish?"
        case "approval" | "parked":
            written.tool("a", act, args={"name": "a"})
            expected = "approval" if how == "approval" else "what f:1:a:1 did"
        case "step":
            written.noop("a")
            expected, options = "held before", RunOptions(pause_before=("a",), longest_wait=0.0)
        case "retrying":
            world.breaks["a"] = ConnectionError("away")
            written.tool("a", world.tool(), args={"name": "a"})
            expected = "next try"
        case "child":
            written.flow("a", asking())
            expected = "which"
        case _:
            written.human("a", prompt="?")
            expected = "by ana"
    flow = written.build()
    async with Steptrail.open(url) as trail:
        if how == "parked":
            with pytest.raises(Crash):
                await again_on(trail, HandClock(), crash_at("after-node")).run(flow, session="f")
        await trail.run(flow, session="f", options=options)
        if how == "stopped":
            await trail.flow("f").stop(by="ana")
        questions = await trail.inbox()
        assert bool(questions) is (how in {"limit", "human", "approval", "step", "parked", "child"})
        assert all(question.to_dict()["kind"] == question.kind for question in questions)
    for more in ([], ["--json"]):
        assert await asyncio.to_thread(main, ["why", "flow:f", "--store", url, *more]) == 0
        told = capsys.readouterr().out
        assert told.strip()
        if not more:
            assert expected in told
            # A run that was begun in Python has no file, and a wait for a person is no matter of one.
            assert how != "failed" or "WORKFLOW is where workflow 't' is: FILE.py[:NAME]" in told
    assert await asyncio.to_thread(main, ["show", "flow:f", "--store", url]) == 0
    assert "f" in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["inbox", "--store", url]) == 0
    capsys.readouterr()
