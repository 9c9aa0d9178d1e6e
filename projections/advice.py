"""The smallest change that would have let a run go on, derived from the votes that forbade it."""

from collections.abc import Mapping, Sequence
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
    """The changes with which the run would have gone on; all of them are needed.

    `stubborn` are forbids that no setting turns around. `would_continue` says whether the rest of the votes go on once
    those changes are made.
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
    for vote in votes:
        decisions.append(vote.decision)
        if vote.decision is not ContinuationDecision.FORBID:
            continue
        change = _change(vote, limits, permanent_error=permanent_error)
        if change is None:
            stubborn.append(vote)
        else:
            changes.append(change)
            decisions[-1] = ContinuationDecision.ALLOW
    going_on = ContinuationDecision.can_continue_with(*decisions)
    return Advice(changes=tuple(changes), stubborn=tuple(stubborn), would_continue=going_on and bool(changes))


def _change(vote: ContinuationEvaluation, limits: Limits, *, permanent_error: bool) -> Change | None:
    context = vote.context
    match vote.setting:
        case "error_policy":
            return _other_policy(context, permanent=permanent_error)
        case "finish_reasons":
            met = str(context["finishReason"])
            kept = tuple(reason for reason in limits.finish_reasons if reason.value != met)
            return Change(text=f"finish reasons without {met!r}", limits={"finish_reasons": kept})
        case "max_cost":
            return _more_money(context)
        case str(setting) if setting in _RAISED:
            key, unit = _RAISED[setting]
            value = int(_number(context, key)) + 1
            return Change(text=f"{setting}={value}{unit} or more", limits={setting: value})
        case _:
            return None


def _other_policy(context: _Context, *, permanent: bool) -> Change:
    kind = ErrorType(str(context["errorType"]))
    field = f"on_{kind.value}_error"
    if permanent:
        text = f"the cause of the error put right, or an error policy that ignores {kind.value} errors"
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


_RAISED: Mapping[str, tuple[str, str]] = {
    "max_steps": ("currentSteps", ""),
    "max_tokens": ("totalTokens", ""),
    "max_input_tokens": ("inputTokens", ""),
    "max_output_tokens": ("outputTokens", ""),
    "max_tool_calls": ("toolCalls", ""),
    "timeout": ("elapsedSeconds", " seconds"),
    "cumulative_timeout": ("cumulativeSeconds", " seconds"),
    "max_unproductive_segments": ("unproductiveSegments", ""),
}
"""Limit -> where a vote by it says how much was used, and the unit."""
