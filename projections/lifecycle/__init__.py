"""What happens in a run, as events for listeners; derived from what is stored."""

from steptrail.projections.lifecycle.base import AgentEvent
from steptrail.projections.lifecycle.executions import (
    AgentExecutionCompleted,
    AgentExecutionEnded,
    AgentExecutionFailed,
    AgentExecutionPaused,
    AgentExecutionResumed,
    AgentExecutionStarted,
    AgentExecutionStopped,
    AgentExecutionWaiting,
    StopSignalReceived,
)
from steptrail.projections.lifecycle.fold import LifecycleFold, lifecycle_events
from steptrail.projections.lifecycle.steps import (
    AgentStepCompleted,
    AgentStepStarted,
    ContinuationEvaluated,
    HookExecuted,
    InferenceRequestFailed,
    InferenceRequestStarted,
    InferenceResponseReceived,
    TokenUsageReported,
    ValidationFailed,
)
from steptrail.projections.lifecycle.tools import (
    SubagentCompleted,
    SubagentSpawning,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallEvent,
    ToolCallStarted,
    ToolCallSuspended,
)

__all__ = [
    "AgentEvent",
    "AgentExecutionCompleted",
    "AgentExecutionEnded",
    "AgentExecutionFailed",
    "AgentExecutionPaused",
    "AgentExecutionResumed",
    "AgentExecutionStarted",
    "AgentExecutionStopped",
    "AgentExecutionWaiting",
    "AgentStepCompleted",
    "AgentStepStarted",
    "ContinuationEvaluated",
    "HookExecuted",
    "InferenceRequestFailed",
    "InferenceRequestStarted",
    "InferenceResponseReceived",
    "LifecycleFold",
    "StopSignalReceived",
    "SubagentCompleted",
    "SubagentSpawning",
    "TokenUsageReported",
    "ToolCallBlocked",
    "ToolCallCancelled",
    "ToolCallCompleted",
    "ToolCallEvent",
    "ToolCallStarted",
    "ToolCallSuspended",
    "ValidationFailed",
    "lifecycle_events",
]
