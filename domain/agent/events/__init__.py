"""Every event of an agent's session. Names in the past tense; `TYPE` and field names are the storage format."""

from steptrail.domain.agent.events.approvals import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ToolCallHeld,
)
from steptrail.domain.agent.events.decisions import (
    ContinuationEvaluated,
    EvaluationsRecorded,
    RetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.execution import (
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    PauseRequested,
    StepCompleted,
    StepStarted,
    StopRequested,
)
from steptrail.domain.agent.events.hooks import HooksRan, InferenceRequestAmended, UsageRecorded
from steptrail.domain.agent.events.inference import (
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
)
from steptrail.domain.agent.events.session import MessagesAppended, MetadataChanged, SessionForked, SessionStarted
from steptrail.domain.agent.events.tools import (
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
)

__all__ = [
    "AgentEvent",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalRequested",
    "ContinuationEvaluated",
    "EvaluationsRecorded",
    "ExecutionFinished",
    "ExecutionPaused",
    "ExecutionResumed",
    "ExecutionStarted",
    "HooksRan",
    "InferenceCompleted",
    "InferenceFailed",
    "InferenceInterrupted",
    "InferenceRequestAmended",
    "InferenceStarted",
    "MessagesAppended",
    "MetadataChanged",
    "PauseRequested",
    "RetryScheduled",
    "SessionForked",
    "SessionStarted",
    "StepCompleted",
    "StepStarted",
    "StopRequested",
    "ToolCallAmended",
    "ToolCallBlocked",
    "ToolCallCancelled",
    "ToolCallHeld",
    "ToolExecutionCompleted",
    "ToolExecutionFailed",
    "ToolExecutionInterrupted",
    "ToolExecutionSettledLate",
    "ToolExecutionStarted",
    "ToolExecutionSuspended",
    "ToolRetryScheduled",
    "UsageRecorded",
    "WaitEnded",
    "WaitStarted",
]

AgentEvent = (
    SessionStarted
    | SessionForked
    | MessagesAppended
    | MetadataChanged
    | ExecutionStarted
    | ExecutionResumed
    | ExecutionPaused
    | StopRequested
    | PauseRequested
    | StepStarted
    | StepCompleted
    | InferenceStarted
    | InferenceCompleted
    | InferenceFailed
    | InferenceInterrupted
    | InferenceRequestAmended
    | ToolExecutionStarted
    | ToolRetryScheduled
    | ToolExecutionCompleted
    | ToolExecutionFailed
    | ToolExecutionInterrupted
    | ToolExecutionSuspended
    | ToolExecutionSettledLate
    | ToolCallBlocked
    | ToolCallAmended
    | ToolCallCancelled
    | ToolCallHeld
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalExpired
    | HooksRan
    | UsageRecorded
    | RetryScheduled
    | WaitStarted
    | WaitEnded
    | EvaluationsRecorded
    | ContinuationEvaluated
    | ExecutionFinished
)
