"""One call of one tool, from the model's arguments to an outcome that can be recorded.

Whatever a tool does, the run goes on: every exception of a tool becomes an outcome. Only two pass through: the
cancellation of the caller that waits for the call, and `KeyboardInterrupt`.
"""

import asyncio
import inspect
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools.arguments import Bindable, InvalidArguments, bind_arguments
from steptrail.infrastructure.tools.result import to_json_value
from steptrail.infrastructure.tools.threads import run_in_thread
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolFailed, ToolOutcome, ToolSucceeded, ToolTimedOut

__all__ = ["Executable", "execute"]

_LARGE = 10_000
"""Items of a result that are looked through beside the loop."""


class Executable(Protocol):
    """The members of a tool that is executed like a function with `@tool`."""

    @property
    def name(self) -> str:
        """The name that the model uses."""
        ...

    @property
    def parameters(self) -> Bindable:
        """Makes the arguments of the call from those that the model wrote."""
        ...

    @property
    def is_async(self) -> bool:
        """Tell whether `invoke` gives an awaitable."""
        ...

    @property
    def needs_instance(self) -> bool:
        """Tell whether it is a method without its instance."""
        ...

    def invoke(self, bound: Mapping[str, object]) -> object:
        """Call it with bound arguments."""
        ...

    def retries(self, error: BaseException) -> bool:
        """Tell whether its own rule has such an error tried again."""
        ...


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _OutOfTime:
    cancelled: bool


_Ended = ToolSucceeded | _Raised

_abandoned: set["asyncio.Task[_Ended]"] = set()
"""Tasks that did not end when they were cancelled. A loop refers to its tasks only weakly."""


async def execute(
    tool: Executable,
    arguments: Mapping[str, JsonValue] | None,
    raw: str | None,
    context: ToolContext,
    *,
    timeout: float | None,
    capture: Capture,
    grace: float = 1.0,
) -> ToolOutcome:
    """Call `tool` and return how that ended.

    `arguments` is the parsed object, or None when the model's text `raw` was not one. `timeout` is in seconds and
    alone decides: the caller has compared the tool's own with what is left of the run; at zero or below the tool is not
    called. An async tool that is cancelled has `grace` seconds to end; a sync one cannot be stopped and is given up.

    Raises `ConfigurationError` for a method without its instance, `KeyboardInterrupt` when the tool does, and
    `asyncio.CancelledError` when the caller is cancelled, after an async tool had its grace.
    """
    if tool.needs_instance:
        msg = f"tool {tool.name!r} is a method without its instance: take it from an instance of its class"
        raise ConfigurationError(msg)
    try:
        bound = bind_arguments(tool.parameters, arguments, raw, context)
    except InvalidArguments as error:
        return ToolFailed(_error(ErrorType.VALIDATION, error))
    except Exception as error:  # a type's own validator, which is the tool's code
        return ToolFailed(capture(error))
    if timeout is not None and timeout <= 0:
        return ToolTimedOut(_timeout(tool, timeout, cancelled=True), cancelled=True)
    if tool.is_async:
        ended = await _run_async(tool, bound, timeout, grace)
    else:
        ended = await _run_sync(tool, bound, timeout)
    match ended:
        case ToolSucceeded():
            return ended
        case _OutOfTime(cancelled=cancelled):
            late = _timeout(tool, timeout, cancelled=cancelled)
            return ToolTimedOut(late, cancelled, may_retry=tool.retries(TimeoutError()))
        case _Raised(error=KeyboardInterrupt() as interrupt):
            raise interrupt
        case _Raised(error=NotStorable() as refusal):
            return ToolFailed(_error(ErrorType.TOOL, refusal))
        case _Raised(error=raised):
            return ToolFailed(capture(raised), may_retry=tool.retries(raised))


async def _run_async(
    tool: Executable, bound: Mapping[str, object], timeout: float | None, grace: float
) -> _Ended | _OutOfTime:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    async def call() -> _Ended:
        # Caught inside: `SystemExit` would otherwise leave the task through the loop and end the whole program.
        try:
            returned = tool.invoke(bound)
            value: object = await returned if inspect.isawaitable(returned) else returned
            if isinstance(value, Sized) and len(value) > _LARGE:
                # A million numbers take a second to look through.
                return await run_in_thread(partial(_succeeded, value), name=f"steptrail-tool-{tool.name}")
            return _succeeded(value)
        except BaseException as error:
            return _Raised(error)
        finally:
            tell()

    task = asyncio.create_task(call(), name=f"steptrail-tool-{tool.name}")
    task.add_done_callback(tell)
    # `asyncio.wait` would do, at three times the cost of a quick tool's call.
    timer = None if timeout is None else loop.call_later(timeout, tell)
    try:
        await ended
        if task.done():
            return _ending(task)
    finally:
        if timer is not None:
            timer.cancel()
        # Reached early by the caller's own cancellation, which goes on once the tool had its grace.
        if not task.done():
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            task.cancel()
            await asyncio.wait({task}, timeout=grace)
    return _OutOfTime(cancelled=task.done())


def _ending(task: "asyncio.Task[_Ended]") -> _Ended:
    # A task that was cancelled before its first line never came to catch it.
    return _Raised(asyncio.CancelledError()) if task.cancelled() else task.result()


async def _run_sync(tool: Executable, bound: Mapping[str, object], timeout: float | None) -> _Ended | _OutOfTime:
    def call() -> _Ended:
        try:
            returned = tool.invoke(bound)
            if inspect.iscoroutine(returned):
                returned.close()
                raise TypeError(f"tool {tool.name!r} returned a coroutine: declare it with `async def`")
            return _succeeded(returned)
        except BaseException as error:
            return _Raised(error)

    try:
        future = run_in_thread(call, name=f"steptrail-tool-{tool.name}")
    except RuntimeError as error:
        return _Raised(error)
    await asyncio.wait({future}, timeout=timeout)
    return future.result() if future.done() else _OutOfTime(cancelled=False)


def _succeeded(returned: object) -> ToolSucceeded:
    # Converted where the tool ran, so that a large result on a thread does not hold up the loop.
    return ToolSucceeded(to_json_value(returned))


def _timeout(tool: Executable, timeout: float | None, *, cancelled: bool) -> ErrorInfo:
    message = f"tool {tool.name!r} did not end within {timeout} seconds"
    if timeout is not None and timeout <= 0:
        message = f"tool {tool.name!r} was not called: no time was left"
    elif not cancelled:
        message += "; it could not be cancelled and may still be running"
    return _error(ErrorType.TIMEOUT, TimeoutError(message))


def _error(error_type: ErrorType, error: Exception) -> ErrorInfo:
    kind = f"{error.__class__.__module__}:{error.__class__.__qualname__}"
    return ErrorInfo(type=error_type, error_class=kind, message=str(error), causes=(f"{kind}: {error}",))
