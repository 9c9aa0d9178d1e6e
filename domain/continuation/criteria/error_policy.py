"""The guard that asks the error policy about the last step. It always votes; from the first failure on with counts."""

from typing import final

from msgspec import Struct, structs

from steptrail.domain.base import made
from steptrail.domain.continuation.built_in import Guard, built_in
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.policy.context import CanResolveErrorContext, ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.fallback import FallbackSpec, handling_of
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.policy.resolver import AgentErrorContextResolver
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class ErrorPolicyCriterion(Guard, Struct, frozen=True):
    """Forbids when the policy says stop; allows when it says retry or ignore, and when nothing failed.

    The stop reason is `retry_limit` when the policy wanted to retry and its retries are used up. Otherwise it is
    `error`, also for a permanent error, where no retry would help. In both cases the forbid fails the run.
    While `fallback` has a model left, it does not forbid because of the errors that lead to that one.
    A `resolver` replaces the one that reads the steps of an agent. Raises `ConfigurationError` for what is no policy.
    """

    policy: ErrorPolicy
    resolver: CanResolveErrorContext | None = None
    fallback: FallbackSpec | None = None

    def __post_init__(self) -> None:
        a_kind_of(ErrorPolicy, self.policy, "what an ErrorPolicyCriterion asks")

    @classmethod
    def with_policy(cls, policy: ErrorPolicy) -> "ErrorPolicyCriterion":
        """Return the criterion that reads the errors of an agent's steps."""
        return cls(policy)

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with the error, the counts and the handling, and with `configuredHandling` if the policy had another.

        Before anything has failed the vote has no context.
        """
        error = self._error(state)
        if not (error.total_failures or error.consecutive_failures):
            return self._vote({}, None)
        handling = handling_of(error, self.policy, self.fallback, state)
        context: dict[str, JsonValue] = {
            "errorType": str(error.type),
            "consecutiveFailures": error.consecutive_failures,
            "totalFailures": error.total_failures,
            "maxRetries": self.policy.max_retries,
            "handling": str(handling),
            "toolName": error.tool_name,
        }
        if error.consecutive_failures == 0:
            return self._vote(context, None)
        if self.fallback is not None and (tries := self.fallback.failures(state)):
            context |= {"tries": f"{tries}/{self.fallback.after}", "nextModel": self.fallback.models[0].model.model}
        configured = self.policy.handling_for(error.type)
        if handling is not configured:
            context["configuredHandling"] = str(configured)
        if handling is not ErrorHandlingDecision.STOP:
            return self._vote(context, None)
        exhausted = configured is ErrorHandlingDecision.RETRY and not error.is_permanent
        return self._vote(context, StopReason.RETRY_LIMIT if exhausted else StopReason.ERROR, fails=True)

    def _error(self, state: StateView) -> ErrorContext:
        if self.resolver is None:
            return AgentErrorContextResolver(self.policy).resolve(state)
        answer = self.resolver.resolve(state)
        if not isinstance(answer, ErrorContext):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"resolve() returned {type(answer).__name__}, not an ErrorContext")
        # An error of a class that no policy knows, or fewer failures than none, must not count as ignored.
        return made(ErrorContext, structs.asdict(answer))

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        if not context or context["consecutiveFailures"] == 0:
            return "No errors present"
        failures, most, handling = context["consecutiveFailures"], context["maxRetries"], context["handling"]
        kind = str(context["errorType"])
        label = f"{kind[:1].upper()}{kind[1:]} error"
        if "nextModel" in context:
            return f"{label}, {context['tries']} before model {context['nextModel']} is asked"
        if handling == "stop":
            return f"{label} after {failures} consecutive failures (max: {most})"
        return f"{label}, retrying ({failures}/{most})" if handling == "retry" else f"{label} ignored by policy"
