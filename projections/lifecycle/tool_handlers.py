"""The lifecycle events that follow from stored events of tool calls."""

from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.ids import SessionId, effect_id, execution_id, session_for_call
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle.base import in_ms
from steptrail.projections.lifecycle.steps import ValidationFailed
from steptrail.projections.lifecycle.telling import Met, Told
from steptrail.projections.lifecycle.tools import (
    CallBlocked,
    CallCancelled,
    SubagentCompleted,
    SubagentSpawning,
    ToolCallCompleted,
    ToolCallStarted,
    ToolCallSuspended,
)
from steptrail.projections.told import why_cut

__all__ = ["OF_TOOLS"]

_INTERRUPTED = "interrupted"


def _started(met: Met, event: stored.ToolExecutionStarted) -> Told:
    call = met.call(event.position)
    if call is None:
        return
    args = call.arguments or {}
    yield ToolCallStarted, {**_whose(met, call), "args": args, "attempt": event.attempt}
    if _runs_an_agent(met, call):
        depth = met.state.parent.depth + 1 if met.state.parent is not None else 1
        yield SubagentSpawning, {**_subagent(met, call), "prompt": str(args.get("prompt", "")), "depth": depth}


def _completed(met: Met, event: stored.ToolExecutionCompleted) -> Told:
    if (call := met.call(event.position)) is not None:
        yield from _ended(met, call, seconds=event.duration_seconds, result=event.result, usage=event.usage)


def _failed(met: Met, event: stored.ToolExecutionFailed) -> Told:
    if (call := met.call(event.position)) is not None:
        yield from _ended(met, call, seconds=event.duration_seconds, error=event.error, usage=event.usage)


def _interrupted(met: Met, event: stored.ToolExecutionInterrupted) -> Told:
    before, call = met.call_before(event.position), met.call(event.position)
    if call is None or before is None or before.status is not CallStatus.RUNNING:  # it was settled late before this
        return
    error = f"cut off: {why_cut(event)}"
    yield from _ended(met, call, seconds=event.duration_seconds, cut_off=error, usage=event.usage)


def _settled_late(met: Met, event: stored.ToolExecutionSettledLate) -> Told:
    for before, call in zip(met.calls_before, met.state.tool_executions, strict=False):
        if before is not call:
            yield from _ended(met, call, result=event.result, error=event.error, usage=event.usage)


def _suspended(met: Met, event: stored.ToolExecutionSuspended) -> Told:
    call = met.call(event.position)
    if call is not None and call.suspension is not None:
        yield ToolCallSuspended, {**_whose(met, call), "subagent_id": event.session, "reason": event.reason}


def _blocked(met: Met, event: stored.ToolCallBlocked) -> Told:
    if (call := met.call(event.position)) is not None:
        said = {"args": call.arguments or {}, "reason": event.reason, "hook": event.hook}
        yield CallBlocked, {**_whose(met, call), **said}


def _cancelled(met: Met, event: stored.ToolCallCancelled) -> Told:
    if (call := met.call(event.position)) is not None:
        yield CallCancelled, {**_whose(met, call), "reason": event.reason}


def _ended(
    met: Met,
    call: ToolExecution,
    *,
    seconds: float = 0.0,
    result: JsonValue = None,
    error: ErrorInfo | None = None,
    cut_off: str | None = None,
    usage: Usage | None = None,
) -> Told:
    failed, kind = (error.message, error.type.value) if error is not None else (cut_off, cut_off and _INTERRUPTED)
    at = met.record.at
    yield (
        ToolCallCompleted,
        {
            **_whose(met, call),
            "success": failed is None,
            "result": result,
            "error": failed,
            "error_type": kind,
            "started": at - round(seconds * 1e6),
            "ended": at,
            "duration_ms": in_ms(seconds),
        },
    )
    if error is not None and error.type is ErrorType.VALIDATION:
        yield ValidationFailed, {"step": met.step, "validation_type": "tool_arguments", "errors": (error.message,)}
    if _runs_an_agent(met, call):
        status = "completed" if failed is None else kind if kind == _INTERRUPTED else "failed"
        tokens = usage.total if usage is not None else None
        bill = {"status": status, "tokens": tokens, "duration_ms": in_ms(seconds)}
        yield SubagentCompleted, {**_subagent(met, call), **bill}


def _whose(met: Met, call: ToolExecution) -> dict[str, Any]:
    execution = execution_id(SessionId(met.state.agent_id), met.state.fold.executions)
    message_id = effect_id(execution, met.step, call.position)
    return {"step": met.step, "tool": call.name, "tool_call_id": call.call.id, "message_id": message_id}


def _runs_an_agent(met: Met, call: ToolExecution) -> bool:
    spec = met.state.agent.tool(call.name) if met.state.agent is not None else None
    return spec is not None and spec.runs_children == "agent"


def _subagent(met: Met, call: ToolExecution) -> dict[str, Any]:
    name = (call.arguments or {}).get("subagent")
    chosen = name if isinstance(name, str) else call.name
    return {**_whose(met, call), "subagent": chosen, "subagent_id": session_for_call(call.effect_id or "")}


OF_TOOLS: dict[type[stored.AgentEvent], Callable[[Met, Any], Told]] = {
    stored.ToolExecutionStarted: _started,
    stored.ToolExecutionCompleted: _completed,
    stored.ToolExecutionFailed: _failed,
    stored.ToolExecutionInterrupted: _interrupted,
    stored.ToolExecutionSettledLate: _settled_late,
    stored.ToolExecutionSuspended: _suspended,
    stored.ToolCallBlocked: _blocked,
    stored.ToolCallCancelled: _cancelled,
}
