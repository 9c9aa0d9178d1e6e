"""Starts tool calls: each call is recorded as started, or as ended before it could start."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from steptrail.domain.agent.call_phases import CANCELLABLE, CallPhase
from steptrail.domain.agent.events import (
    AgentEvent,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolExecutionFailed,
    ToolExecutionStarted,
)
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.fold_calls import unknown_outcome
from steptrail.domain.agent.ids import effect_id
from steptrail.domain.agent.interruptions import runs_again
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import ArgumentsAltered
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ToolEffect, ToolSpec, misnamed


def start_calls(
    state: AgentState,
    positions: tuple[int, ...],
    *,
    cut_by: CutBy | None,
    now: Callable[[], int],
    unfit: Callable[[ToolExecution], ErrorInfo | None],
) -> tuple[AgentEvent, ...]:
    """Return one event for each of these calls, in order: that it has started, or why it does not run.

    A call of a tool that is not recorded fails. A call beyond the run's limit of calls is cancelled. An external call
    is deferred at `now()` (microseconds of UTC), by the clock of who answers; it fails if its arguments are `unfit`.
    `cut_by` is the limit whose deadline has come, and then all calls are cancelled; None before that. Raises
    `ArgumentsAltered` when any of them has other arguments than were recorded. Those of the other calls were checked
    with the segment.
    """
    execution, calls = state.execution, state.tool_executions
    if execution is None:
        return ()
    for position in positions:  # checked for all before any starts, because the error would cut off those that run
        refuse_altered(calls[position], state)
    made, events = dict(execution.tool_calls), list[AgentEvent]()
    for position in positions:
        call = calls[position]
        event = _start(state, execution, call, made, cut_by, now, unfit)
        if isinstance(event, ToolExecutionStarted | ToolCallDeferred) and not call.attempt:
            made[call.name] = made.get(call.name, 0) + 1
        events.append(event)
    return tuple(events)


def refuse_altered(call: ToolExecution, state: AgentState) -> None:
    """Raise `ArgumentsAltered` for a call whose arguments are not those that were approved, or that it began with."""
    if (since := call.altered_since) is not None:
        raise ArgumentsAltered(state.agent_id, call.name, _effect_of(state, call), since)


def refuse_altered_again(state: AgentState) -> None:
    """Raise `ArgumentsAltered` when the next segment would start a call that `refuse_altered` refuses."""
    if state.execution is not None:
        for call in state.tool_executions:
            if call.phase in CANCELLABLE or runs_again(state.execution, call):
                refuse_altered(call, state)


def _start(
    state: AgentState,
    execution: ExecutionFold,
    call: ToolExecution,
    made: dict[str, int],
    cut_by: CutBy | None,
    now: Callable[[], int],
    unfit: Callable[[ToolExecution], ErrorInfo | None],
) -> AgentEvent:
    spec = execution.agent.tool(call.name)
    # A second try of a call does not count as a second call.
    if call.attempt == 0 and (refused := no_room_for(execution, call, made)) is not None:
        return refused
    if cut_by is not None:
        return ToolCallCancelled(position=call.position, reason="the run's time is up", cut_by=cut_by)
    why = _why_not_again(spec, call) if call.phase is CallPhase.AGAIN else None
    error = None if why is None else unknown_outcome(call.name, why)
    if error is None and spec is not None and spec.external is not None:
        error = unfit(call) or _misfit(spec, call)
    if error is not None or spec is None:
        error = error or _unknown(execution, call.name)
        return ToolExecutionFailed(position=call.position, error=error, duration_seconds=0.0)
    called: _Called = {
        "position": call.position,
        "call_id": call.call.id,
        "tool": call.name,
        "effect_id": _effect_of(state, call),
        "arguments_digest": call.arguments_digest,
    }
    if spec.external is not None:
        return ToolCallDeferred(**called, expires_at=now() + round(spec.external.expires * 1e6))
    return ToolExecutionStarted(
        **called, effect=spec.effect, attempt=call.attempt + 1, read_settings=spec.takes_context
    )


class _Called(TypedDict):
    position: int
    call_id: str
    tool: str
    effect_id: str
    arguments_digest: str


def _misfit(spec: ToolSpec, call: ToolExecution) -> ErrorInfo | None:
    """Return why the arguments of an external call do not fit the schema by their names; None when they do."""
    wrong = "they are no JSON object" if call.arguments is None else misnamed(spec, call.arguments)
    if wrong is None:
        return None
    message = f"the arguments of {call.name} do not fit: {wrong}"
    return ErrorInfo(type=ErrorType.VALIDATION, error_class="steptrail:InvalidArguments", message=message)


def _why_not_again(spec: ToolSpec | None, call: ToolExecution) -> str | None:
    """Return why a call that was cut off is not run again by the tool of today, `spec`; None when it is.

    Of what was only read nothing is unknown. What was unsafe is here only if a person wants it to run again.
    """
    if spec is None:
        return None if call.effect in {ToolEffect.READ, ToolEffect.UNSAFE} else "there is no such tool now"
    if spec.runs_children != call.runs or spec.external is not None:
        return "its tool is another one now"
    return "its tool may not be repeated now" if spec.effect is ToolEffect.UNSAFE is not call.effect else None


def no_room_for(
    execution: ExecutionFold, call: ToolExecution, made: Mapping[str, int] | None = None
) -> ToolCallCancelled | None:
    """Return why the call does not run after all those that were `made`, by tool; None while there is room for it.

    Without `made` those are meant that the execution has made by now.
    """
    made, spec = execution.tool_calls if made is None else made, execution.agent.tool(call.name)
    most = execution.agent.limits.binding("max_tool_calls")
    if most is not None and sum(made.values()) >= most:
        reason = f"the run has made all of its {most} tool calls"
        return ToolCallCancelled(position=call.position, reason=reason, over_the_limit=True)
    of_it = spec.max_calls if spec is not None else None
    if of_it is not None and made.get(call.name, 0) >= of_it:
        reason = f"the run has made all of its {of_it} calls of {call.name}"
        return ToolCallCancelled(position=call.position, reason=reason)
    return None


def _effect_of(state: AgentState, call: ToolExecution) -> str:
    return effect_id(state.execution_id or "", state.open_step or 0, call.position)


def _unknown(execution: ExecutionFold, name: str) -> ErrorInfo:
    known = ", ".join(sorted(tool.name for tool in execution.agent.tools)) or "none"
    message = f"there is no tool {name!r}; the tools are: {known}"
    return ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:UnknownTool", message=message)
