"""The events of the runs of a workflow."""

from steptrail.domain.flow.events.attempts import (
    CutReason,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptSettledLate,
    NodeAttemptStarted,
    NodeAttemptSuspended,
    NodeRetryScheduled,
    NodeThen,
)
from steptrail.domain.flow.events.nodes import (
    CancelReason,
    NodeCancelled,
    NodeCompleted,
    NodeEvaluated,
    NodeFailed,
    NodeFailureRecorded,
    NodeOpened,
    NodeSkipped,
    Token,
)
from steptrail.domain.flow.events.people import (
    HumanAnswered,
    HumanExpired,
    HumanRequested,
    StepAnswered,
    StepHeld,
    StepPoint,
)
from steptrail.domain.flow.events.run import FlowForked, FlowLimit, FlowResumed, FlowRetried, FlowStarted, LimitReached
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
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalRequested",
    "CancelReason",
    "CutReason",
    "ExecutionFinished",
    "ExecutionPaused",
    "FlowEvent",
    "FlowForked",
    "FlowLimit",
    "FlowResumed",
    "FlowRetried",
    "FlowStarted",
    "HumanAnswered",
    "HumanExpired",
    "HumanRequested",
    "LimitReached",
    "MetadataChanged",
    "NodeAttemptCompleted",
    "NodeAttemptFailed",
    "NodeAttemptInterrupted",
    "NodeAttemptSettledLate",
    "NodeAttemptStarted",
    "NodeAttemptSuspended",
    "NodeCancelled",
    "NodeCompleted",
    "NodeEvaluated",
    "NodeFailed",
    "NodeFailureRecorded",
    "NodeOpened",
    "NodeRetryScheduled",
    "NodeSkipped",
    "NodeThen",
    "PauseLifted",
    "PauseRequested",
    "SessionScored",
    "SessionStarted",
    "StepAnswered",
    "StepHeld",
    "StepPoint",
    "StopRequested",
    "Token",
    "WaitEnded",
    "WaitStarted",
]

FlowEvent = (
    SharedEvent
    | FlowStarted
    | FlowForked
    | FlowResumed
    | FlowRetried
    | LimitReached
    | NodeOpened
    | NodeEvaluated
    | NodeCompleted
    | NodeFailureRecorded
    | NodeFailed
    | NodeSkipped
    | NodeCancelled
    | NodeAttemptStarted
    | NodeAttemptCompleted
    | NodeAttemptFailed
    | NodeAttemptInterrupted
    | NodeAttemptSuspended
    | NodeRetryScheduled
    | NodeAttemptSettledLate
    | HumanRequested
    | HumanAnswered
    | HumanExpired
    | StepHeld
    | StepAnswered
)
"""Every event of a stream `flow:…`."""
