"""What happens in a run, for whoever listens: `trail.on(...)` and `trail.wiretap(...)`.

These events are derived from the stored ones of `steptrail.events`, live and from the log alike.
"""

from steptrail.interfaces.python.console_logger import ConsoleLogger
from steptrail.interfaces.python.lifecycle_reader import LifecycleReader
from steptrail.interfaces.python.listeners import ListenerRegistration
from steptrail.projections.lifecycle import LifecycleFold, RunEvent, lifecycle_events
from steptrail.projections.lifecycle.executions import (
    AgentExecutionCompleted,
    AgentExecutionEnded,
    AgentExecutionFailed,
    AgentExecutionPaused,
    AgentExecutionResumed,
    AgentExecutionStarted,
    AgentExecutionStopped,
    AgentExecutionWaitEnded,
    AgentExecutionWaiting,
    MessagesAdded,
    StopSignalReceived,
)
from steptrail.projections.lifecycle.steps import (
    AgentStepCompleted,
    AgentStepStarted,
    DecisionTaken,
    HookExecuted,
    InferenceRequestFailed,
    InferenceRequestStarted,
    InferenceResponseReceived,
    TokenUsageReported,
    ValidationFailed,
)
from steptrail.projections.lifecycle.tools import (
    CallBlocked,
    CallCancelled,
    SubagentCompleted,
    SubagentSpawning,
    ToolCallCompleted,
    ToolCallEvent,
    ToolCallStarted,
    ToolCallSuspended,
)

__all__ = [
    "AgentExecutionCompleted",
    "AgentExecutionEnded",
    "AgentExecutionFailed",
    "AgentExecutionPaused",
    "AgentExecutionResumed",
    "AgentExecutionStarted",
    "AgentExecutionStopped",
    "AgentExecutionWaitEnded",
    "AgentExecutionWaiting",
    "AgentStepCompleted",
    "AgentStepStarted",
    "CallBlocked",
    "CallCancelled",
    "ConsoleLogger",
    "DecisionTaken",
    "HookExecuted",
    "InferenceRequestFailed",
    "InferenceRequestStarted",
    "InferenceResponseReceived",
    "LifecycleFold",
    "LifecycleReader",
    "ListenerRegistration",
    "MessagesAdded",
    "RunEvent",
    "StopSignalReceived",
    "SubagentCompleted",
    "SubagentSpawning",
    "TokenUsageReported",
    "ToolCallCompleted",
    "ToolCallEvent",
    "ToolCallStarted",
    "ToolCallSuspended",
    "ValidationFailed",
    "lifecycle_events",
]
