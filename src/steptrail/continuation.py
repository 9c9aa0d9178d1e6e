"""Whether a run goes on: decisions, votes, outcomes, and the criteria that vote."""

from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.criteria.answer import AnswerComplete, FinishReasonCheck
from steptrail.domain.continuation.criteria.cost_limit import CostLimit
from steptrail.domain.continuation.criteria.deprecated import ErrorPresenceCheck, RetryLimit
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.criteria.output import OutputAccepted
from steptrail.domain.continuation.criteria.pending_input import PendingInput
from steptrail.domain.continuation.criteria.predicate import CallableCriterion
from steptrail.domain.continuation.criteria.shadow import Shadow
from steptrail.domain.continuation.criteria.user_stop import UserStop
from steptrail.domain.continuation.criteria.work import ResponseContentCheck, ToolCallPresenceCheck
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import (
    CrashLoopLimit,
    CumulativeExecutionTimeLimit,
    ExecutionTimeLimit,
    InputTokenLimit,
    OutputTokenLimit,
    StepsLimit,
    TokenUsageLimit,
    ToolCallLimit,
)
from steptrail.domain.continuation.names import criterion_name, short_name
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor
from steptrail.domain.continuation.protocols import CanDecideToContinue, CanExplainContinuation, Criterion
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView, StepView, StopRequestView

__all__ = [
    "AnswerComplete",
    "CallableCriterion",
    "CanDecideToContinue",
    "CanExplainContinuation",
    "ContinuationCriteria",
    "ContinuationDecision",
    "ContinuationEvaluation",
    "ContinuationOutcome",
    "CostLimit",
    "CrashLoopLimit",
    "Criterion",
    "CumulativeExecutionTimeLimit",
    "ErrorPolicyCriterion",
    "ErrorPresenceCheck",
    "EvaluationProcessor",
    "ExecutionTimeLimit",
    "FinishReasonCheck",
    "InputTokenLimit",
    "OutputAccepted",
    "OutputTokenLimit",
    "PendingInput",
    "ResponseContentCheck",
    "RetryLimit",
    "Shadow",
    "StateView",
    "StepView",
    "StepsLimit",
    "StopReason",
    "StopRequestView",
    "TokenUsageLimit",
    "ToolCallLimit",
    "ToolCallPresenceCheck",
    "UserStop",
    "criterion_name",
    "short_name",
]
