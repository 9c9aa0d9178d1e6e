"""What limits have in common: the check of their numbers, and a vote that allows or forbids with a stop reason."""

from math import isfinite

from pydantic import JsonValue

from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.errors import ConfigurationError

__all__ = ["check_count", "check_seconds", "limit_vote"]


def check_count(what: str, value: object, *, least: int = 0) -> None:
    """Raise `ConfigurationError` for what is no whole number, or less than `least` (0 or 1)."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{what} must be a whole number, it is {value!r}.")
    if value < least:
        rule = "be greater than zero" if least else "not be negative"
        raise ConfigurationError(f"{what} must {rule}, it is {value}.")


def check_seconds(value: object) -> None:
    """Raise `ConfigurationError` for what is no number of seconds above zero."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigurationError(f"Max seconds must be a number, it is {value!r}.")
    if not (isfinite(value) and value > 0):
        raise ConfigurationError("Max seconds must be greater than zero.")


def limit_vote(criterion: str, context: dict[str, JsonValue], forbids: StopReason | None) -> ContinuationEvaluation:
    """Return the vote of the limit named `criterion`: forbid with the stop reason `forbids`, without one allow."""
    return ContinuationEvaluation(
        criterion_class=criterion,
        decision=ContinuationDecision.ALLOW if forbids is None else ContinuationDecision.FORBID,
        context=context,
        stop_reason=forbids,
        is_limit=forbids is not None,
    )
