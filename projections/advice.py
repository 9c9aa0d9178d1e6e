"""The smallest change that would have let a run go on, derived from the votes that forbade it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pydantic import JsonValue

from steptrail.domain.agent.config import Limits
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorType
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import next_microdollar, usd_text

__all__ = ["Advice", "Change", "advise"]

_Context = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New values for settings of the limits and the error policy, and how to say it to a person."""

    text: str
    limits: Mapping[str, object] | None = None
    error_policy: Mapping[str, object] | None = None

    def apply(self, limits: Limits, policy: ErrorPolicy) -> tuple[Limits, ErrorPolicy]:
        """Return the settings with the change made."""
        return (
            limits.model_copy(update=dict(self.limits or {})),
            policy.model_copy(update=dict(self.error_policy or {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What it takes to go on: every change is needed. `stubborn` are forbids that no setting turns around.

    `would_continue` says whether the rest of the votes go on once those changes are made.
    """

    changes: tuple[Change, ...]
    stubborn: tuple[ContinuationEvaluation, ...]
    would_continue: bool


def advise(votes: Sequence[ContinuationEvaluation], limits: Limits, *, permanent_error: bool) -> Advice:
    """Return what would have let a decision with these votes go on.

    `permanent_error` says that the last error fails the same way every time, so no retry helps.
    """
    changes: list[Change] = []
    stubborn: list[ContinuationEvaluation] = []
    decisions: list[ContinuationDecision] = []
    voted: set[str] = set()
    for vote in votes:
        decisions.append(vote.decision)
        # Only the built-in criteria, which vote first, read these settings; another of the name has its own.
        built_in = vote.criterion_class not in voted and _is_set(vote.criterion_class, limits)
        voted.add(vote.criterion_class)
        if vote.decision is not ContinuationDecision.FORBID:
            continue
        change = _change(vote, limits, permanent_error=permanent_error) if built_in else None
        if change is None:
            stubborn.append(vote)
        else:
            changes.append(change)
            decisions[-1] = ContinuationDecision.ALLOW
    going_on = ContinuationDecision.can_continue_with(*decisions)
    return Advice(changes=tuple(changes), stubborn=tuple(stubborn), would_continue=going_on and bool(changes))


def _is_set(criterion: str, limits: Limits) -> bool:
    if criterion == "FinishReasonCheck":
        return bool(limits.finish_reasons)
    if criterion == "CostLimit":
        return limits.max_cost is not None
    return criterion not in _RAISED or getattr(limits, _RAISED[criterion][0]) is not None


def _change(vote: ContinuationEvaluation, limits: Limits, *, permanent_error: bool) -> Change | None:
    context = vote.context
    match vote.criterion_class:
        case "ErrorPolicyCriterion":
            return _other_policy(context, permanent=permanent_error)
        case "FinishReasonCheck":
            met = str(context["finishReason"])
            kept = tuple(reason for reason in limits.finish_reasons if reason.value != met)
            return Change(text=f"finish reasons without {met!r}", limits={"finish_reasons": kept})
        case "CostLimit":
            return _more_money(context)
        case name if name in _RAISED:
            setting, key, unit, step = _RAISED[name]
            value = step(_number(context, key))
            return Change(text=f"{setting}={value:g}{unit} or more", limits={setting: value})
        case _:
            return None


def _other_policy(context: _Context, *, permanent: bool) -> Change:
    kind = ErrorType(str(context["errorType"]))
    field = f"on_{kind.value}_error"
    if permanent:
        text = f"an error policy that ignores {kind.value} errors: this one is permanent, so no retry helps"
        return Change(text=text, error_policy={field: ErrorHandlingDecision.IGNORE})
    retries = int(_number(context, "consecutiveFailures")) + 1
    return Change(
        text=f"an error policy that retries {kind.value} errors with max_retries={retries} or more",
        error_policy={field: ErrorHandlingDecision.RETRY, "max_retries": retries},
    )


def _more_money(context: _Context) -> Change:
    said: list[str] = []
    changes: dict[str, object] = {}
    cost, most = (Decimal(str(context[key])) for key in ("costUsd", "maxCostUsd"))
    if context.get("undecidable"):
        said.append("prices for all that it could not price, or unpriced='warn'")
        changes["unpriced"] = "warn"
    if cost >= most:
        more = next_microdollar(cost)
        said.append(f"max_cost={usd_text(more)} USD or more")
        changes["max_cost"] = more
    return Change(text=", and ".join(said), limits=changes)


def _number(context: _Context, key: str) -> float:
    value = context[key]
    return float(value) if isinstance(value, int | float) else 0.0


def _one_more(count: float) -> float:
    return int(count) + 1


_RAISED: Mapping[str, tuple[str, str, str, Callable[[float], float]]] = {
    "StepsLimit": ("max_steps", "currentSteps", "", _one_more),
    "TokenUsageLimit": ("max_tokens", "totalTokens", "", _one_more),
    "InputTokenLimit": ("max_input_tokens", "inputTokens", "", _one_more),
    "OutputTokenLimit": ("max_output_tokens", "outputTokens", "", _one_more),
    "ToolCallLimit": ("max_tool_calls", "toolCalls", "", _one_more),
    "ExecutionTimeLimit": ("timeout", "elapsedSeconds", " seconds", _one_more),
    "CumulativeExecutionTimeLimit": ("cumulative_timeout", "cumulativeSeconds", " seconds", _one_more),
    "CrashLoopLimit": ("max_unproductive_segments", "unproductiveSegments", "", _one_more),
}
"""Guard -> the limit it reads, where its vote says how much was used, the unit, and the next value above that."""
