"""Calls that do not end in time, and callers that do not wait."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.infrastructure.tools import Tool
from steptrail.infrastructure.tools.execution import execute
from steptrail.runtime.agent.tool_port import ToolContext, ToolOutcome, ToolTimedOut
from steptrail.tools import tool

Call = Callable[..., ToolOutcome]


def unexpected(error: BaseException) -> ErrorInfo:
    raise AssertionError(f"nothing was to be captured, and here is {error!r}")


async def begin(tool: Tool, context: ToolContext, timeout: float | None) -> ToolOutcome:
    return await execute(tool, {}, None, context, timeout=timeout, capture=unexpected)


@pytest.mark.parametrize("timeout", [0.0, -3.0])
def test_without_time_the_tool_is_not_called(call: Call, timeout: float) -> None:
    called: list[str] = []

    @tool
    def touch() -> None:
        called.append("touched")

    outcome = call(touch, timeout=timeout)
    assert isinstance(outcome, ToolTimedOut)
    assert outcome.cancelled
    assert outcome.error.type is ErrorType.TIMEOUT
    assert outcome.error.message == "tool 'touch' was not called: no time was left"
    assert called == []


def test_an_async_tool_is_cancelled_and_awaited(call: Call) -> None:
    ended: list[str] = []

    @tool
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    outcome = call(hang, timeout=0.01)
    assert isinstance(outcome, ToolTimedOut)
    assert outcome.cancelled
    assert outcome.error.type is ErrorType.TIMEOUT
    assert outcome.error.error_class == "builtins:TimeoutError"
    assert outcome.error.message == "tool 'hang' did not end within 0.01 seconds"
    assert ended == ["cleaned up"]


@pytest.mark.parametrize("reply", ["returned", "raised"])
def test_what_an_async_tool_still_says_when_cancelled_is_dropped(call: Call, reply: str) -> None:
    @tool
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if reply == "raised":
                raise ValueError("late") from None
        return "late"

    outcome = call(hang, timeout=0.01)
    assert isinstance(outcome, ToolTimedOut)
    assert outcome.cancelled


async def test_an_async_tool_that_ignores_its_cancellation_is_left_behind(context: ToolContext) -> None:
    log: list[str] = []

    @tool(retry=2, retry_on=(TimeoutError,))
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("asked to end")
        await asyncio.Event().wait()

    running = asyncio.create_task(begin(stubborn, context, timeout=0.01))
    patience = stubborn.patience
    assert patience is not None
    await asyncio.wait({running}, timeout=0.1)
    assert not running.done()
    outcome = patience.outcome(0.01)
    assert not outcome.cancelled
    assert outcome.may_retry
    assert outcome.error.message == (
        "tool 'stubborn' did not end within 0.01 seconds; it could not be cancelled and may still be running"
    )
    assert log == ["asked to end"]
    running.cancel()


def test_nobody_is_patient_with_a_sync_tool() -> None:
    @tool
    def look() -> None: ...

    assert look.patience is None


def test_a_sync_tool_is_given_up_and_its_late_result_dropped(context: ToolContext) -> None:
    release = threading.Event()

    @tool
    def hang() -> str:
        release.wait(30)
        return "late"

    async def scenario() -> ToolOutcome:
        outcome = await begin(hang, context, timeout=0.01)
        thread = next(t for t in threading.enumerate() if t.name == "steptrail-tool-hang")
        release.set()
        await asyncio.to_thread(thread.join)
        await asyncio.sleep(0)
        return outcome

    outcome = asyncio.run(scenario(), debug=True)
    assert isinstance(outcome, ToolTimedOut)
    assert not outcome.cancelled
    assert outcome.error.message.endswith("may still be running")


def test_a_result_that_comes_after_the_loop_is_closed_makes_no_noise(
    call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    release = threading.Event()

    @tool
    def hang() -> str:
        release.wait(30)
        return "too late"

    assert isinstance(call(hang, timeout=0.01), ToolTimedOut)
    thread = next(t for t in threading.enumerate() if t.name == "steptrail-tool-hang")
    release.set()
    thread.join()
    assert capsys.readouterr() == ("", "")


def test_hung_tools_take_no_place_from_others(call: Call) -> None:
    release = threading.Event()

    @tool
    def hang() -> None:
        release.wait(30)

    @tool
    def answer() -> str:
        return "here"

    try:
        for _ in range(40):  # more than the loop's own pool has threads
            assert isinstance(call(hang, timeout=0.001), ToolTimedOut)
        outcome = call(answer)
    finally:
        release.set()
    assert not isinstance(outcome, ToolTimedOut)


HUNG_PROGRAM = """
import asyncio, threading
from steptrail.infrastructure.tools import tool
from steptrail.infrastructure.tools.execution import execute
from steptrail.runtime.agent.tool_port import ToolContext

@tool
def hang() -> None:
    threading.Event().wait()

context = ToolContext(effect_id="e", session_id="a", execution_id="x", step=1, call_id="c", attempt=1)
print(type(asyncio.run(execute(hang, {}, None, context, timeout=0.01, capture=None))).__name__)
"""


@pytest.mark.slow("starts a process")
def test_a_hung_tool_does_not_keep_the_program_from_ending() -> None:
    command = [sys.executable, "-c", HUNG_PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ToolTimedOut\n", "")


async def test_cancelling_the_caller_ends_an_async_tool_first(context: ToolContext) -> None:
    started = asyncio.Event()
    log: list[str] = []

    @tool
    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("tool ended")

    task = asyncio.create_task(begin(hang, context, timeout=None))
    await started.wait()
    task.cancel()
    await asyncio.wait({task})
    log.append("caller cancelled" if task.cancelled() else "caller went on")
    assert log == ["tool ended", "caller cancelled"]


async def test_cancelling_the_caller_gives_a_sync_tool_up(context: ToolContext) -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def hang() -> None:
        started.set()
        release.wait(30)

    try:
        task = asyncio.create_task(begin(hang, context, timeout=None))
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert not release.is_set()
    finally:
        release.set()
