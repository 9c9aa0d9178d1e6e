"""One event as a line for a person who watches the run."""

import json
from collections.abc import Mapping

from steptrail.events import (
    AgentEvent,
    ExecutionFinished,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceFailed,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.messages import Message

__all__ = ["describe"]


def describe(event: AgentEvent) -> str | None:
    """Return the line, or nothing for events that only the log needs."""
    match event:
        case ExecutionStarted(input=Message() as message):
            return f"asked     {message.text}"
        case ExecutionResumed(ended_by=ended_by, segment=segment):
            return f"resumed   after a {ended_by.value}, as segment {segment}"
        case InferenceCompleted(reply=reply) if reply.tool_calls:
            return f"model     asks for {', '.join(_call(c.name, c.arguments) for c in reply.tool_calls)}"
        case InferenceCompleted(reply=reply):
            return f"model     says: {reply.text}"
        case InferenceFailed(error=error):
            return f"model     failed: {error.message}"
        case ToolExecutionStarted(tool=name, effect_id=effect, attempt=attempt):
            return f"tool      {name} starts, effect {effect}, attempt {attempt}"
        case ToolExecutionCompleted(result=result):
            return f"tool      returned {json.dumps(result)}"
        case ToolExecutionFailed(error=error):
            return f"tool      failed: {error.message}"
        case ToolExecutionInterrupted(reason=reason):
            return f"tool      was cut off ({reason}): its outcome is unknown"
        case ExecutionFinished(status=status, stop_reason=reason, resolved_by=by):
            return f"finished  {status.value}: {reason.value}, resolved by {by}"
        case _:
            return None


def _call(name: str, arguments: Mapping[str, object] | None) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in (arguments or {}).items())})"
