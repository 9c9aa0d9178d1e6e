"""The smallest change that would have let a run go on, derived from the votes that forbade it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import LIMITS, Limits
from steptrail.domain.continuation.reasons import Context, number
from steptrail.domain.failures import ErrorType
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New values for settings of the limits and the error policy, and how to say it to a person."""

    text: str
    limits: Mapping[str, object] | None = None
    error_policy: Mapping[str, object] | None = None

    def apply(self, limits: Limits, policy: ErrorPolicy) -> tuple[Limits, ErrorPolicy]:
        """Return the settings with the change made."""
        return (
            structs.replace(limits, **dict(self.limits or {})),
            structs.replace(policy, **dict(self.error_policy or {})),
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
            # With more retries, the vote about a rejected answer asks for another one.
            asks_again = vote.setting == "output"
            decisions[-1] = ContinuationDecision.REQUEST if asks_again else ContinuationDecision.ALLOW
    going_on = ContinuationDecision.can_continue_with(*decisions)
    return Advice(changes=tuple(changes), stubborn=tuple(stubborn), would_continue=going_on and bool(changes))


def _change(vote: ContinuationEvaluation, limits: Limits, *, permanent_error: bool) -> Change | None:
    if vote.setting == "error_policy":
        return _other_policy(vote.context, permanent=permanent_error)
    if vote.setting == "output":
        least = int(number(vote.context, "rejections"))
        return Change(text=f"retries={least} or more in `with_output`")
    if vote.setting == "compaction":
        return Change(text="a larger `window`, if the model has one, or smaller results of tools, in `with_compaction`")
    if (setting := vote.setting) is None or setting not in LIMITS:
        return None
    more = LIMITS[setting].more(setting, vote.context, getattr(limits, setting))
    return Change(text=more.text, limits=more.settings)


def _other_policy(context: Context, *, permanent: bool) -> Change:
    kind = ErrorType(str(context["errorType"]))
    field = f"on_{kind.value}_error"
    if permanent:
        text = f"the cause of the error put right, or an error policy that ignores {kind.value} errors"
        return Change(text=text, error_policy={field: ErrorHandlingDecision.IGNORE})
    retries = int(number(context, "consecutiveFailures")) + 1
    return Change(
        text=f"an error policy that retries {kind.value} errors with max_retries={retries} or more",
        error_policy={field: ErrorHandlingDecision.RETRY, "max_retries": retries},
    )
