"""The guard that asks the error policy about the last step. It always votes, so every trace shows the counts."""

from dataclasses import dataclass
from typing import ClassVar, final

from pydantic import JsonValue

from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.policy.context import CanResolveErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.policy.resolver import AgentErrorContextResolver
from steptrail.domain.views import StateView

__all__ = ["ErrorPolicyCriterion"]


@final
@dataclass(frozen=True, slots=True)
class ErrorPolicyCriterion:
    """Forbids when the policy says stop; allows when it says retry or ignore, and when nothing failed.

    The stop reason is `retry_limit` when the policy wanted to retry and its retries are used up, else `error`: also
    for a permanent error, which no retry could have helped. Either way its forbid fails the run.
    """

    policy: ErrorPolicy
    resolver: CanResolveErrorContext | None = None

    is_guard: ClassVar[bool] = True

    @classmethod
    def with_policy(cls, policy: ErrorPolicy) -> "ErrorPolicyCriterion":
        """Return the criterion that reads the errors of an agent's steps."""
        return cls(policy)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with the error, the counts and the handling; `configuredHandling` where the policy wanted another."""
        error = (self.resolver or AgentErrorContextResolver(self.policy)).resolve(state)
        handling = self.policy.evaluate(error)
        configured = self.policy.handling_for(error.type)
        context: dict[str, JsonValue] = {
            "errorType": error.type.value,
            "consecutiveFailures": error.consecutive_failures,
            "totalFailures": error.total_failures,
            "maxRetries": self.policy.max_retries,
            "handling": handling.value,
            "toolName": error.tool_name,
        }
        if error.consecutive_failures and handling is not configured:
            context["configuredHandling"] = configured.value
        if handling is not ErrorHandlingDecision.STOP:
            decision, stop_reason = ContinuationDecision.ALLOW, None
        else:
            exhausted = configured is ErrorHandlingDecision.RETRY and not error.is_permanent
            decision = ContinuationDecision.FORBID
            stop_reason = StopReason.RETRY_LIMIT if exhausted else StopReason.ERROR
        return ContinuationEvaluation(
            criterion_class="ErrorPolicyCriterion",
            decision=decision,
            context=context,
            stop_reason=stop_reason,
            fails=stop_reason is not None,
        )
