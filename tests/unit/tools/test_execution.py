"""How a call ends: what a tool returns and what it raises."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools import Tool
from steptrail.runtime.agent.tool_port import ToolFailed, ToolOutcome, ToolSucceeded
from steptrail.runtime.kernel.json_form import to_json_value
from steptrail.tools import tool
from tests.harness.scarce import thread_refused

Call = Callable[..., ToolOutcome]

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


def raising(error: BaseException, *, is_async: bool) -> Tool:
    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    return tool(fail_async) if is_async else tool(fail)


def test_a_sync_tool_runs_beside_the_loop_on_a_daemon_thread(call: Call) -> None:
    threads: list[threading.Thread] = []

    @tool
    def where() -> str:
        threads.append(threading.current_thread())
        return "there"

    assert call(where) == ToolSucceeded("there")
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon
    assert threads[0].name == "steptrail-tool-where"


def test_an_async_tool_runs_on_the_loop(call: Call) -> None:
    threads: list[threading.Thread] = []

    @tool
    async def where() -> str:
        await asyncio.sleep(0)
        threads.append(threading.current_thread())
        return "here"

    assert call(where) == ToolSucceeded("here")
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_tool_needs_no_limit(call: Call, timeout: float | None) -> None:
    @tool
    def three() -> int:
        return 3

    assert call(three, timeout=timeout) == ToolSucceeded(3)


@pytest.mark.parametrize("is_async", [False, True])
def test_context_variables_go_in_and_do_not_come_out(call: Call, is_async: bool) -> None:
    def look() -> str:
        seen = REQUEST.get()
        REQUEST.set("changed")
        return seen

    async def look_async() -> str:
        return look()

    token = REQUEST.set("r-1")
    try:
        assert call(tool(look_async) if is_async else tool(look)) == ToolSucceeded("r-1")
        assert REQUEST.get() == "r-1"
    finally:
        REQUEST.reset(token)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit("no"), asyncio.CancelledError("no"), GeneratorExit("no")]
)
def test_what_a_tool_raises_is_captured(call: Call, error: BaseException, is_async: bool) -> None:
    outcome = call(raising(error, is_async=is_async))
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.type is ErrorType.UNKNOWN  # what the tests' `capture` says of everything
    assert outcome.error.error_class == f"{type(error).__module__}:{type(error).__qualname__}"
    assert outcome.error.message == "no"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_large_result_that_is_no_json_is_refused_as_a_small_one_is(call: Call, is_async: bool) -> None:
    """It is looked through on a thread, and what that finds has to come back."""

    def many() -> list[object]:
        return [object()] * 20_000

    async def many_async() -> list[object]:
        return many()

    outcome = call(tool(many_async) if is_async else tool(many), timeout=60.0)
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.error_class == "steptrail.domain.errors:NotStorable"


def test_a_sync_tool_may_raise_what_no_coroutine_can(call: Call) -> None:
    outcome = call(raising(StopIteration("no"), is_async=False))
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.error_class == "builtins:StopIteration"


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupt_from_the_keyboard_reaches_the_caller(call: Call, is_async: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        call(raising(KeyboardInterrupt(), is_async=is_async))


def test_a_coroutine_out_of_a_plain_function_is_refused_and_closed(call: Call) -> None:
    async def later() -> int:
        return 1

    @tool
    def sooner() -> Coroutine[None, None, int]:
        return later()

    outcome = call(sooner)
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.message == "tool 'sooner' returned a coroutine: declare it with `async def`"


def test_a_thread_that_cannot_be_started_is_a_failure(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @tool
    def three() -> int:
        return 3

    monkeypatch.setattr(threading.Thread, "start", refuse)
    outcome = call(three)
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.message == "can't start new thread"


def test_a_large_result_for_which_there_is_no_thread_is_the_result_all_the_same(call: Call) -> None:
    @tool
    async def count() -> list[int]:
        return [*range(20_000)]

    with thread_refused(0) as refused:
        assert call(count) == ToolSucceeded([*range(20_000)])
    assert refused == ["steptrail-values"]


def test_what_holds_many_values_is_looked_through_beside_the_loop_however_deep_they_are(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def noted(value: object, where: str = "") -> JsonValue:
        looked.append(threading.current_thread().name)
        return to_json_value(value, where)

    monkeypatch.setattr("steptrail.runtime.agent.tool_port.to_json_value", noted)

    @tool
    async def few() -> dict[str, Any]:
        return {"rows": [*range(100)], "said": "x" * 100_000}

    @tool
    async def many() -> dict[str, Any]:
        return {"found": ({"rows": [[number] for number in range(10_000)]},)}

    for each in (few, many):
        assert isinstance(call(each), ToolSucceeded)
    assert looked == [threading.current_thread().name, "steptrail-values"]


def test_a_result_is_looked_through_once(call: Call) -> None:
    called: list[str] = []

    @tool
    async def found() -> list[str]:
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        return ["tea"] * 1_000

    try:
        outcome = call(found)
    finally:
        sys.setprofile(None)
    assert outcome == ToolSucceeded([*["tea"] * 1_000])
    assert called.count("_array") == 1


def test_a_value_that_has_no_length_though_its_class_has_is_refused_as_any_other(call: Call) -> None:
    class Scalar:
        """An array of numpy without dimensions is such a one."""

        def __len__(self) -> int:
            raise TypeError("len() of unsized object")

    @tool
    async def measure() -> object:
        return {"length": Scalar()}

    outcome = call(measure)
    assert isinstance(outcome, ToolFailed)
    assert "Scalar" in outcome.error.message
