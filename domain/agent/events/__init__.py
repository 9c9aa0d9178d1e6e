"""All events of a session. Their names are in the past tense; their `TYPE` and field names are the storage format."""

from steptrail.domain.agent.events.compaction import ConversationCompacted
from steptrail.domain.agent.events.decisions import (
    ContinuationEvaluated,
    DecisionEvent,
    EvaluationsRecorded,
    ModelSwitched,
    RetryScheduled,
)
from steptrail.domain.agent.events.execution import (
    ExecutionEvent,
    ExecutionResumed,
    ExecutionStarted,
    StepCompleted,
    StepStarted,
)
from steptrail.domain.agent.events.hooks import HookEvent, HooksRan, InferenceRequestAmended, UsageRecorded
from steptrail.domain.agent.events.inference import (
    InferenceCompleted,
    InferenceEvent,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
)
from steptrail.domain.agent.events.instructions import InstructionsResolved
from steptrail.domain.agent.events.output import AnswerAccepted, AnswerRejected, OutputEvent
from steptrail.domain.agent.events.session import MessagesAppended, SessionEvent, SessionForked
from steptrail.domain.agent.events.tools import (
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolCallHeld,
    ToolEvent,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
)
from steptrail.domain.shared.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionFinished,
    ExecutionPaused,
    MetadataChanged,
    PauseLifted,
    PauseRequested,
    SessionScored,
    SessionStarted,
    SharedEvent,
    StopRequested,
    WaitEnded,
    WaitStarted,
)

__all__ = [
    "AgentEvent",
    "AnswerAccepted",
    "AnswerRejected",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalRequested",
    "ContinuationEvaluated",
    "ConversationCompacted",
    "EvaluationsRecorded",
    "ExecutionFinished",
    "ExecutionPaused",
    "ExecutionResumed",
    "ExecutionStarted",
    "HooksRan",
    "InferenceCompleted",
    "InferenceEvent",
    "InferenceFailed",
    "InferenceInterrupted",
    "InferenceRequestAmended",
    "InferenceStarted",
    "InstructionsResolved",
    "MessagesAppended",
    "MetadataChanged",
    "ModelSwitched",
    "PauseLifted",
    "PauseRequested",
    "RetryScheduled",
    "SessionForked",
    "SessionScored",
    "SessionStarted",
    "StepCompleted",
    "StepStarted",
    "StopRequested",
    "ToolCallAmended",
    "ToolCallBlocked",
    "ToolCallCancelled",
    "ToolCallDeferred",
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
    SharedEvent
    | SessionEvent
    | ExecutionEvent
    | InferenceEvent
    | OutputEvent
    | HookEvent
    | InstructionsResolved
    | ToolEvent
    | DecisionEvent
    | ConversationCompacted
)
