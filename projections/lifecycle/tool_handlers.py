"""The lifecycle events that follow from stored events of tool calls."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle import tools
from steptrail.projections.lifecycle.base import in_ms
from steptrail.projections.lifecycle.handler_types import LifecycleEvents, LifecycleHandlers, Moment
from steptrail.projections.lifecycle.steps import ValidationFailed
from steptrail.projections.rendering import why_cut

OF_TOOLS = LifecycleHandlers()

_INTERRUPTED = "interrupted"


@OF_TOOLS.of(stored.ToolExecutionStarted)
def _started(moment: Moment, event: stored.ToolExecutionStarted) -> LifecycleEvents:
    call = moment.call(event.position)
    if call is None:
        return
    args = call.arguments or {}
    yield tools.ToolCallStarted(**moment.call_head(call), args=args, attempt=event.attempt)
    if call.runs == "agent":
        name, session = _child(call)
        depth = moment.state.parent.depth + 1 if moment.state.parent is not None else 1
        yield tools.SubagentSpawning(
            **moment.call_head(call),
            subagent=name,
            subagent_id=session,
            prompt=str(args.get("prompt", "")),
            depth=depth,
        )


@OF_TOOLS.of(stored.ToolCallDeferred)
def _deferred(moment: Moment, event: stored.ToolCallDeferred) -> LifecycleEvents:
    if (call := moment.call(event.position)) is not None:
        yield tools.ToolCallStarted(**moment.call_head(call), args=call.arguments or {}, attempt=call.attempt)


@OF_TOOLS.of(stored.ToolExecutionCompleted)
def _completed(moment: Moment, event: stored.ToolExecutionCompleted) -> LifecycleEvents:
    if (call := moment.call(event.position)) is not None:
        yield from _ended(moment, call, seconds=event.duration_seconds, result=event.result, usage=event.usage)


@OF_TOOLS.of(stored.ToolExecutionFailed)
def _failed(moment: Moment, event: stored.ToolExecutionFailed) -> LifecycleEvents:
    if (call := moment.call(event.position)) is not None:
        yield from _ended(moment, call, seconds=event.duration_seconds, error=event.error, usage=event.usage)


@OF_TOOLS.of(stored.ToolExecutionInterrupted)
def _interrupted(moment: Moment, event: stored.ToolExecutionInterrupted) -> LifecycleEvents:
    before, call = moment.call_before(event.position), moment.call(event.position)
    if call is None or before is None or before.status is not CallStatus.RUNNING:  # it was settled late before this
        return
    error = f"cut off: {why_cut(event)}"
    yield from _ended(moment, call, seconds=event.duration_seconds, cut_off=error, usage=event.usage)


@OF_TOOLS.of(stored.ToolExecutionSettledLate)
def _settled_late(moment: Moment, event: stored.ToolExecutionSettledLate) -> LifecycleEvents:
    for before, call in zip(moment.calls_before, moment.state.tool_executions, strict=False):
        if before is not call:
            yield from _ended(moment, call, result=event.result, error=event.error, usage=event.usage)


@OF_TOOLS.of(stored.ToolExecutionSuspended)
def _suspended(moment: Moment, event: stored.ToolExecutionSuspended) -> LifecycleEvents:
    call = moment.call(event.position)
    if call is not None and call.suspension is not None:
        yield tools.ToolCallSuspended(**moment.call_head(call), subagent_id=event.session, reason=event.reason)


@OF_TOOLS.of(stored.ToolCallBlocked)
def _blocked(moment: Moment, event: stored.ToolCallBlocked) -> LifecycleEvents:
    if (call := moment.call(event.position)) is not None:
        yield tools.CallBlocked(
            **moment.call_head(call), args=call.arguments or {}, reason=event.reason, hook=event.hook
        )


@OF_TOOLS.of(stored.ToolCallCancelled)
def _cancelled(moment: Moment, event: stored.ToolCallCancelled) -> LifecycleEvents:
    if (call := moment.call(event.position)) is not None:
        yield tools.CallCancelled(**moment.call_head(call), reason=event.reason)


def _ended(
    moment: Moment,
    call: ToolExecution,
    *,
    seconds: float = 0.0,
    result: JsonValue = None,
    error: ErrorInfo | None = None,
    cut_off: str | None = None,
    usage: Usage | None = None,
) -> LifecycleEvents:
    failed, kind = (error.message, error.type.value) if error is not None else (cut_off, cut_off and _INTERRUPTED)
    at, took = moment.record.at, in_ms(seconds)
    yield tools.ToolCallCompleted(
        **moment.call_head(call),
        success=failed is None,
        result=result,
        error=failed,
        error_type=kind,
        started=at - round(seconds * 1e6),
        ended=at,
        duration_ms=took,
    )
    if error is not None and error.type is ErrorType.VALIDATION:
        yield ValidationFailed(
            **moment.head(), step=moment.step, validation_type="tool_arguments", errors=(error.message,)
        )
    if call.runs == "agent":
        name, session = _child(call)
        yield tools.SubagentCompleted(
            **moment.call_head(call),
            subagent=name,
            subagent_id=session,
            status="completed" if failed is None else _INTERRUPTED if kind == _INTERRUPTED else "failed",
            tokens=usage.total if usage is not None else None,
            duration_ms=took,
        )


def _child(call: ToolExecution) -> tuple[str, str]:
    """Return the name of the agent that the call runs, and its session."""
    name = (call.arguments or {}).get("subagent")
    return name if isinstance(name, str) else call.name, session_for_call(call.effect_id or "")
