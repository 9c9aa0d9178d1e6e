"""Whoever runs a session and is cancelled leaves it paused: Ctrl-C in a program, a task that is given up."""

import asyncio
import ctypes
import os
import signal
import threading

import pytest

from steptrail.domain.agent.events import ExecutionPaused, ToolExecutionInterrupted, ToolExecutionStarted
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.sync import SyncSteptrail
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.testing.scripted_model import ScriptedModel, call
from tests.processes.agents.agents import Options, gated_model, gated_tool
from tests.processes.agents.site import SESSION
from tests.processes.stage import COMPLETED, Stage


def interrupted(stage: Stage, command: str, options: Options) -> None:
    """Run until a tool is in flight, and send what Ctrl-C sends."""
    running = stage.start(command, "gated_tool", options)
    stage.wait_for("tool")
    os.kill(running.pid, signal.SIGINT)
    assert stage.end(running).said == {"refused": "KeyboardInterrupt"}
    assert stage.session(lambda session: session.state()).status == "paused"
    assert [(event.by, event.reason) for event in stage.of(ExecutionPaused)] == [("caller", "cancelled")]


@pytest.mark.parametrize("command", ["run", "run-sync"])
@pytest.mark.parametrize("in_the_loop", [True, False])
def test_an_unsafe_tool_in_flight_is_interrupted_and_never_repeated(
    stage: Stage, command: str, in_the_loop: bool
) -> None:
    options: Options = {"async": in_the_loop}
    interrupted(stage, command, options)
    assert [event.reason for event in stage.of(ToolExecutionInterrupted)] == ["cancelled"]
    stage.open("tool")
    assert stage.perform("resume", "gated_tool", options).result == COMPLETED
    assert stage.ledger.counts()["slow"] == 1
    assert [event.tool for event in stage.of(ToolExecutionStarted)] == ["slow", "after"]


@pytest.mark.parametrize("command", ["run", "run-sync"])
def test_a_reading_tool_in_flight_runs_again(stage: Stage, command: str) -> None:
    interrupted(stage, command, {"effect": "read"})
    stage.open("tool")
    assert stage.perform("resume", "gated_tool", {"effect": "read"}).result == COMPLETED
    assert [(event.tool, event.attempt) for event in stage.of(ToolExecutionStarted)] == [
        ("slow", 1),
        ("slow", 2),
        ("after", 1),
    ]


async def test_a_cancelled_task_is_cancelled_for_its_caller_too(stage: Stage) -> None:
    async with Steptrail.open(stage.url) as trail:
        running = asyncio.create_task(trail.run(gated_model(stage, {}), "Go.", session=SESSION))
        while not stage.has_reached("model-0"):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await trail.session(SESSION).state()).status == "paused"
        for gate in ("model-0", "model-1"):
            stage.open(gate)
        assert (await trail.session(SESSION).resume(gated_model(stage, {}))).output == "All done."


async def test_a_deadline_around_a_run_is_a_deadline_and_not_a_cancellation(stage: Stage) -> None:
    deadline = asyncio.timeout(None)

    async def fall_due() -> None:
        while not stage.has_reached("tool"):
            await asyncio.sleep(0.01)
        deadline.reschedule(0.0)

    async with Steptrail.open(stage.url) as trail:
        falling_due = asyncio.create_task(fall_due())
        with pytest.raises(TimeoutError):
            async with deadline:
                await trail.run(gated_tool(stage, {"async": True}), "Go.", session=SESSION)
        await falling_due
        assert (await trail.session(SESSION).state()).status == "paused"


async def test_a_second_cancellation_does_not_keep_the_run_from_pausing(stage: Stage) -> None:
    async with Steptrail.open(stage.url) as trail:
        running = asyncio.create_task(trail.run(gated_tool(stage, {"async": True}), "Go.", session=SESSION))
        while not stage.has_reached("tool"):
            await asyncio.sleep(0.01)
        while not running.done():
            running.cancel()
            await asyncio.sleep(0)
        assert running.cancelled()
        assert (await trail.session(SESSION).state()).status == "paused"


class SoftTimeLimitExceeded(Exception):
    """What Celery raises in the main thread of a task, from the handler of a signal."""


@pytest.mark.parametrize("error", [SoftTimeLimitExceeded, SystemExit, TimeoutError])
def test_what_a_handler_of_a_signal_raises_ends_a_blocking_run_as_ctrl_c_does(
    stage: Stage, error: type[BaseException]
) -> None:
    def raise_it(_number: int, _frame: object) -> None:
        raise error

    def send() -> None:
        stage.wait_for("tool")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        with SyncSteptrail(lambda: Steptrail.open(stage.url)) as trail:
            sending = threading.Thread(target=send)
            sending.start()
            with pytest.raises(error):
                trail.run(gated_tool(stage, {"effect": "read"}), "Go.", session=SESSION)
            sending.join()
            assert trail.session(SESSION).state().status == "paused"
            stage.open("tool")
            assert trail.session(SESSION).resume(gated_tool(stage, {"effect": "read"})).output == "All done."
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [(event.tool, event.attempt) for event in stage.of(ToolExecutionStarted)] == [
        ("slow", 1),
        ("slow", 2),
        ("after", 1),
    ]


def test_what_another_thread_raises_in_that_of_a_blocking_run_ends_it_too(stage: Stage) -> None:
    """As Dramatiq does after its time limit and when it shuts down, and RQ where it has no signals."""
    raised: list[BaseException] = []

    def work(trail: SyncSteptrail) -> None:
        try:
            trail.run(gated_tool(stage, {"effect": "read"}), "Go.", session=SESSION)
        except SoftTimeLimitExceeded as error:
            raised.append(error)

    with SyncSteptrail(lambda: Steptrail.open(stage.url)) as trail:
        working = threading.Thread(target=work, args=(trail,))
        working.start()
        stage.wait_for("tool")
        ident, error = ctypes.c_ulong(working.ident or 0), ctypes.py_object(SoftTimeLimitExceeded)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error) == 1
        working.join()
        assert len(raised) == 1
        assert trail.session(SESSION).state().status == "paused"
    stage.open("tool")


def test_ctrl_c_does_not_wait_for_what_other_threads_run() -> None:
    began, release = threading.Event(), threading.Event()

    @tool
    def hold() -> str:
        """Wait for somebody."""
        began.set()
        release.wait(30)
        return "held"

    @tool
    def interrupt() -> str:
        """Send what Ctrl-C sends."""
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(30)
        return "too late"

    holding, interrupting = (
        AgentBuilder("threads").with_model(ScriptedModel([call(each.name), "done"])).with_tools(each).build()
        for each in (hold, interrupt)
    )
    with SyncSteptrail(lambda: Steptrail.open("sqlite:///:memory:")) as trail:
        other = threading.Thread(target=trail.run, args=(holding, "Go."), daemon=True)
        other.start()
        began.wait()
        with pytest.raises(KeyboardInterrupt):
            trail.run(interrupting, "Go.", session=SESSION)
        assert other.is_alive()
        assert trail.session(SESSION).state().status == "paused"
        release.set()
        other.join()
