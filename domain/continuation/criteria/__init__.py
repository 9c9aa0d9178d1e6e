"""The criteria that ship with Steptrail, one idea a module. Each also says whether it is a guard."""

from steptrail.domain.continuation.criteria.answer import AnswerComplete, FinishReasonCheck
from steptrail.domain.continuation.criteria.cost_limits import CostLimit, InputTokenLimit, OutputTokenLimit
from steptrail.domain.continuation.criteria.deprecated import ErrorPresenceCheck, RetryLimit
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.criteria.limits import CrashLoopLimit, StepsLimit, TokenUsageLimit, ToolCallLimit
from steptrail.domain.continuation.criteria.pending_input import PendingInput
from steptrail.domain.continuation.criteria.predicate import CallableCriterion
from steptrail.domain.continuation.criteria.shadow import Shadow
from steptrail.domain.continuation.criteria.time_limits import CumulativeExecutionTimeLimit, ExecutionTimeLimit
from steptrail.domain.continuation.criteria.user_stop import UserStop
from steptrail.domain.continuation.criteria.work import ResponseContentCheck, ToolCallPresenceCheck

__all__ = [
    "AnswerComplete",
    "CallableCriterion",
    "CostLimit",
    "CrashLoopLimit",
    "CumulativeExecutionTimeLimit",
    "ErrorPolicyCriterion",
    "ErrorPresenceCheck",
    "ExecutionTimeLimit",
    "FinishReasonCheck",
    "InputTokenLimit",
    "OutputTokenLimit",
    "PendingInput",
    "ResponseContentCheck",
    "RetryLimit",
    "Shadow",
    "StepsLimit",
    "TokenUsageLimit",
    "ToolCallLimit",
    "ToolCallPresenceCheck",
    "UserStop",
]
