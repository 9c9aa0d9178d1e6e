"""Renders the texts of votes that store none. For a built-in criterion, the text is made from the vote's context.

Changing a text changes how old runs read, but not what they decided.
"""

from collections.abc import Callable, Mapping, Sequence

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.names import short_name
from steptrail.domain.json_value import JsonValue

Context = Mapping[str, JsonValue]
Words = Callable[[bool, Context], str]
"""(whether it forbids, the context of the vote) -> text. If it raises for a context, the default text is used."""

_words: dict[str, Words] = {}

_DEFAULT = {
    ContinuationDecision.FORBID: "forbade continuation",
    ContinuationDecision.REQUEST: "requested continuation",
    ContinuationDecision.ALLOW: "permits continuation",
    ContinuationDecision.STOP: "allows stop",
}


def give_words(criterion: str, words: Words) -> None:
    """Take the texts of the votes of a built-in criterion from `words`."""
    _words[criterion] = words


def reason_for(criterion: str, decision: ContinuationDecision, context: Context) -> str:
    """Return the text of a vote that stores none. Does not raise for a context that the texts do not expect."""
    if (shadow := shadow_of(decision, context)) is not None:
        return f"{reason_for(criterion, shadow, {k: v for k, v in context.items() if k != 'shadow'})} (shadow)"
    # A nested collection may have any name. It is recognised by the context of its vote.
    words = _nested if "evaluations" in context else _words.get(criterion)
    if words is not None:
        try:
            return words(decision is ContinuationDecision.FORBID, context)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            pass
    return f"{short_name(criterion)} {_DEFAULT[decision]}"


def shadow_of(decision: ContinuationDecision, context: Context) -> ContinuationDecision | None:
    """Return the decision that a vote in shadow would have had; None for a vote that counts."""
    told = context.get("shadow")
    if decision is ContinuationDecision.ALLOW and isinstance(told, str) and told in _DEFAULT:
        return ContinuationDecision(told)
    return None


def number(context: Context, key: str) -> float:
    """Return a number from the context of a vote. Raises `KeyError` or `TypeError` when there is none."""
    value = context[key]
    if isinstance(value, int | float):
        return value
    raise TypeError(key)


def texts(context: Context, key: str) -> Sequence[JsonValue]:
    """Return a list from the context of a vote. Raises `KeyError` or `TypeError` when there is none."""
    value = context[key]
    if isinstance(value, list):
        return value
    raise TypeError(key)


def _nested(forbidden: bool, context: Context) -> str:
    """Return the text of the nested vote that decided. Raises when there is none: then the default text is used."""
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
