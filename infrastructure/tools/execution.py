"""One call of one tool, from the model's arguments to an outcome that can be recorded.

Whatever a tool does, the run goes on: every exception of a tool becomes an outcome. Only two pass through: the
cancellation of the caller that waits for the call, and `KeyboardInterrupt`.
"""

import asyncio
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from steptrail.domain.errors import NotStorable
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools.arguments import Bindable, InvalidArguments, bind_arguments
from steptrail.infrastructure.tools.reply import succeeded
from steptrail.runtime.agent.tool_port import (
    NO_CONTEXT,
    Capture,
    Patience,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolTimedOut,
)
from steptrail.runtime.kernel.json_form import looked_through
from steptrail.runtime.kernel.thread_calls import run_in_thread
from steptrail.runtime.kernel.time_bound import TimeBound

_GRACE_SECONDS = 1.0
"""How long an async tool that was cancelled may take to end."""


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

    def invoke(self, bound: Mapping[str, object]) -> object:
        """Call it with bound arguments."""
        ...

    def retries(self, error: BaseException) -> bool:
        """Tell whether its own rule has such an error tried again."""
        ...


_Ended = ToolSucceeded | BaseException
"""The result of a tool, or the exception that it has raised."""


def patience_of(tool: Executable) -> Patience | None:
    """Return the patience with a tool that is executed here; None for a sync one, whose thread is given up at once."""
    return Patience(_GRACE_SECONDS, partial(late, tool, cancelled=False)) if tool.is_async else None


def late(tool: Executable, timeout: float | None, *, cancelled: bool) -> ToolTimedOut:
    """Return the outcome of a call whose `timeout` is over; `cancelled` says that no part of it runs any more."""
    return ToolTimedOut(_timeout(tool, timeout, cancelled=cancelled), cancelled, may_retry=tool.retries(TimeoutError()))


def bound_or_error(
    parameters: Bindable,
    arguments: Mapping[str, JsonValue] | None,
    raw: str | None,
    context: ToolContext[Any, Any],
    capture: Capture,
) -> dict[str, object] | ErrorInfo:
    """Return the keyword arguments of a call, or why the arguments of the model do not fit."""
    try:
        return bind_arguments(parameters, arguments, raw, context)
    except InvalidArguments as error:
        return _error(ErrorType.VALIDATION, error)
    except Exception as error:  # a type's own validator, which is the tool's code
        return capture(error)


def unfit(
    parameters: Bindable, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
) -> ErrorInfo | None:
    """Return why arguments do not fit; None when they do."""
    bound = bound_or_error(parameters, arguments, raw, NO_CONTEXT, capture)
    return bound if isinstance(bound, ErrorInfo) else None


async def execute(
    tool: Executable,
    arguments: Mapping[str, JsonValue] | None,
    raw: str | None,
    context: ToolContext,
    *,
    timeout: float | None,
    capture: Capture,
) -> ToolOutcome:
    """Call `tool` and return how that ended.

    `arguments` is the parsed object, or None when the model's text `raw` was not one. `timeout` is in seconds and
    alone decides: the caller has compared the tool's own with what is left of the run; at zero or below the tool is not
    called. An async tool is called in the task of the caller, and cancelled when the time is up. It is waited for until
    it ends, unless the caller has the patience of `patience_of` only. A sync one cannot be stopped and is given up.

    Raises `KeyboardInterrupt` when the tool does, and `asyncio.CancelledError` when the caller is cancelled, after an
    async tool has ended.
    """
    bound = bound_or_error(tool.parameters, arguments, raw, context, capture)
    if isinstance(bound, ErrorInfo):
        return ToolFailed(bound)
    if timeout is not None and timeout <= 0:
        return ToolTimedOut(_timeout(tool, timeout, cancelled=True), cancelled=True)
    if tool.is_async:
        ended = await _run_async(tool, bound, timeout)
    else:
        ended = await _run_sync(tool, bound, timeout)
    match ended:
        case ToolSucceeded() | ToolTimedOut():
            return ended
        case KeyboardInterrupt():
            raise ended
        case NotStorable():
            return ToolFailed(_error(ErrorType.TOOL, ended))
        case _:
            return ToolFailed(capture(ended), may_retry=tool.retries(ended))


async def _run_async(tool: Executable, bound: Mapping[str, object], timeout: float | None) -> _Ended | ToolTimedOut:
    task, limit = asyncio.current_task(), TimeBound(timeout)
    cancelled_before = task.cancelling() if task is not None else 0
    ended = await limit.around(partial(_awaited, tool, bound))
    if isinstance(ended, asyncio.CancelledError) and task and task.cancelling() > cancelled_before:
        raise ended
    return late(tool, timeout, cancelled=True) if limit.is_over else ended


async def _awaited(tool: Executable, bound: Mapping[str, object]) -> _Ended:
    # Caught here: `SystemExit` would otherwise leave the task through the loop and end the whole program.
    try:
        returned = tool.invoke(bound)
        value: object = await returned if inspect.isawaitable(returned) else returned
        return await looked_through(partial(succeeded, value), value)
    except BaseException as error:
        return error


async def _run_sync(tool: Executable, bound: Mapping[str, object], timeout: float | None) -> _Ended | ToolTimedOut:
    def call() -> _Ended:
        try:
            returned = tool.invoke(bound)
            if inspect.iscoroutine(returned):
                returned.close()
                raise TypeError(f"tool {tool.name!r} returned a coroutine: declare it with `async def`")
            # Converted where the tool ran, so that a large result on a thread does not hold up the loop.
            return succeeded(returned)
        except BaseException as error:
            return error

    try:
        future = run_in_thread(call, name=f"steptrail-tool-{tool.name}")
    except RuntimeError as error:
        return error
    await asyncio.wait({future}, timeout=timeout)
    return future.result() if future.done() else late(tool, timeout, cancelled=False)


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
