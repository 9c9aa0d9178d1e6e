"""The words of votes that store none: a built-in criterion makes them from the numbers that its vote stores.

Changing a text changes how old runs read, never what they decided.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.names import short_name

__all__ = ["Context", "Words", "default_reason", "give_words", "number", "reason_for", "shadow_of", "texts"]

Context = Mapping[str, JsonValue]
Words = Callable[[bool, Context], str]
"""(did it forbid, what the vote stored) -> text. A missing key or a wrong type raises; the default text takes over."""

_words: dict[str, Words] = {}

_DEFAULT = {
    ContinuationDecision.FORBID: "forbade continuation",
    ContinuationDecision.REQUEST: "requested continuation",
    ContinuationDecision.ALLOW: "permits continuation",
    ContinuationDecision.STOP: "allows stop",
}


def give_words(criterion: str, words: Words) -> None:
    """Let the votes of a built-in criterion speak by `words`."""
    _words[criterion] = words


def default_reason(criterion: str, decision: ContinuationDecision) -> str:
    """Return the text of a vote that gave no reason."""
    return f"{short_name(criterion)} {_DEFAULT[decision]}"


def reason_for(criterion: str, decision: ContinuationDecision, context: Context) -> str:
    """Return the text of a vote that stores none. Never raises: a name may be reused with another context."""
    if (shadow := shadow_of(decision, context)) is not None:
        return f"{reason_for(criterion, shadow, {k: v for k, v in context.items() if k != 'shadow'})} (shadow)"
    # A nested collection may have any name: it is known by what its vote stores.
    words = _nested if "evaluations" in context else _words.get(criterion)
    if words is not None:
        try:
            return words(decision is ContinuationDecision.FORBID, context)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            pass
    return default_reason(criterion, decision)


def shadow_of(decision: ContinuationDecision, context: Context) -> ContinuationDecision | None:
    """Return the vote that a vote in shadow would have been; None for a vote that counts."""
    told = context.get("shadow")
    if decision is ContinuationDecision.ALLOW and isinstance(told, str) and told in _DEFAULT:
        return ContinuationDecision(told)
    return None


def number(context: Context, key: str) -> float:
    """Return a number that a vote stores. Raises `KeyError` or `TypeError` where it stores none."""
    value = context[key]
    if isinstance(value, int | float):
        return value
    raise TypeError(key)


def texts(context: Context, key: str) -> Sequence[JsonValue]:
    """Return a list that a vote stores. Raises `KeyError` or `TypeError` where it stores none."""
    value = context[key]
    if isinstance(value, list):
        return value
    raise TypeError(key)


def _nested(forbidden: bool, context: Context) -> str:
    """Speak with the voice of the nested vote that decided; without one the default text is right."""
    decider = context["resolvedBy"]
    decisive = ContinuationDecision.FORBID if forbidden else ContinuationDecision.REQUEST
    for vote in texts(context, "evaluations"):
        if isinstance(vote, dict) and vote["criterion"] == decider and vote["decision"] == decisive:
            reason = vote.get("reason")
            if not isinstance(reason, str):
                inner = vote.get("context")
                decision = ContinuationDecision(str(vote["decision"]))
                reason = reason_for(str(decider), decision, inner if isinstance(inner, dict) else {})
            return f"{short_name(str(decider))}: {reason}"
    raise KeyError(decider)
