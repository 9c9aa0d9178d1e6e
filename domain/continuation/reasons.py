"""The words of the built-in criteria, made from the numbers that a vote stores.

A vote of a built-in stores no text: these functions are the only place where it comes from. Changing a text changes
how old runs read, never what they decided.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.names import short_name

__all__ = ["default_reason", "reason_for", "shadow_of"]

Context = Mapping[str, JsonValue]
_Render = Callable[[bool, Context], str]
"""(did it forbid, what the vote stored) -> text. A missing key or a wrong type raises; the default text takes over."""

_DEFAULT = {
    ContinuationDecision.FORBID: "forbade continuation",
    ContinuationDecision.REQUEST: "requested continuation",
    ContinuationDecision.ALLOW: "permits continuation",
    ContinuationDecision.STOP: "allows stop",
}


def default_reason(criterion: str, decision: ContinuationDecision) -> str:
    """Return the text of a vote that gave no reason."""
    return f"{short_name(criterion)} {_DEFAULT[decision]}"


def reason_for(criterion: str, decision: ContinuationDecision, context: Context) -> str:
    """Return the text of a vote that stores none. Never raises: a name may be reused with another context."""
    if (shadow := shadow_of(decision, context)) is not None:
        return f"{reason_for(criterion, shadow, {k: v for k, v in context.items() if k != 'shadow'})} (shadow)"
    # A nested collection may have any name: it is known by what its vote stores.
    render = _nested if "evaluations" in context else _RENDERERS.get(criterion)
    if render is not None:
        try:
            return render(decision is ContinuationDecision.FORBID, context)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            pass
    return default_reason(criterion, decision)


def shadow_of(decision: ContinuationDecision, context: Context) -> ContinuationDecision | None:
    """Return what a vote in shadow would have been; nothing for a vote that counts."""
    told = context.get("shadow")
    if decision is ContinuationDecision.ALLOW and isinstance(told, str) and told in _DEFAULT:
        return ContinuationDecision(told)
    return None


def _number(context: Context, key: str) -> float:
    value = context[key]
    if isinstance(value, int | float):
        return value
    raise TypeError(key)


def _texts(context: Context, key: str) -> Sequence[JsonValue]:
    value = context[key]
    if isinstance(value, list):
        return value
    raise TypeError(key)


def _counted(reached: str, under: str, now: str, most: str) -> _Render:
    def render(forbidden: bool, context: Context) -> str:
        return f"{reached if forbidden else under}: {context[now]}/{context[most]}"

    return render


def _either(key: str, yes: str, no: str) -> _Render:
    def render(_: bool, context: Context) -> str:
        return yes if context[key] else no

    return render


def _execution_time(forbidden: bool, context: Context) -> str:
    label = "limit reached" if forbidden else "under limit"
    elapsed, most = _number(context, "elapsedSeconds"), _number(context, "maxSeconds")
    return f"Execution time {label}: {elapsed:.2f}s/{most:.2f}s"


def _cumulative_time(forbidden: bool, context: Context) -> str:
    spent, most = _number(context, "cumulativeSeconds"), _number(context, "maxSeconds")
    whole = int(most) if most == int(most) else most
    return f"Cumulative execution time {spent:.1f}s {'exceeded' if forbidden else 'under'} limit {whole}s"


def _finish_reason(forbidden: bool, context: Context) -> str:
    seen = context["finishReason"]
    if not _texts(context, "stopReasons"):
        return "No stop reasons configured"
    if seen is None:
        return "No finish reason available"
    return f'Finish reason "{seen}" {"matched stop condition" if forbidden else "does not match stop conditions"}'


_BROKEN = {
    "content_filter": "Answer withheld by the content filter",
    "error": "Answer broken off by an error of the provider",
    "paused": "Answer paused by the provider and not taken up again",
}


def _answer_complete(forbidden: bool, context: Context) -> str:
    seen = context["finishReason"]
    if forbidden and context.get("isEmpty"):
        return "The reply has neither text nor tool calls, and does not say that the model has finished"
    if forbidden:
        return _BROKEN.get(str(seen), "Answer cut at the output limit")
    if context.get("stepFailed"):
        return "The step failed: there is no answer to judge"
    return "No answer to judge yet" if seen is None else "Answer neither cut nor filtered"


def _tool_calls(_: bool, context: Context) -> str:
    if context.get("bootstrap"):
        return "No step has run yet, requesting the first one"
    return "Tool calls present, requesting continuation" if context["hasToolCalls"] else "No tool calls, allowing stop"


def _response(_: bool, context: Context) -> str:
    if not context["hasResponse"]:
        return "No response available"
    return (
        "Response matched, requesting continuation" if context["matched"] else "Response did not match, allowing stop"
    )


def _error_policy(_: bool, context: Context) -> str:
    failures, most, handling = context["consecutiveFailures"], context["maxRetries"], context["handling"]
    if failures == 0:
        return "No errors present"
    kind = str(context["errorType"])
    label = f"{kind[:1].upper()}{kind[1:]} error"
    if handling == "stop":
        return f"{label} after {failures} consecutive failures (max: {most})"
    return f"{label}, retrying ({failures}/{most})" if handling == "retry" else f"{label} ignored by policy"


def _user_stop(_: bool, context: Context) -> str:
    if not context["stopRequested"]:
        return "No stop requested"
    why = context["requestReason"]
    return f"Stop requested by {context['requestedBy']}" + (f": {why}" if why else "")


def _crash_loop(forbidden: bool, context: Context) -> str:
    label = "Crash loop" if forbidden else "No crash loop"
    return f"{label}: {context['unproductiveSegments']}/{context['maxSegments']} segments in a row without progress"


def _cost(forbidden: bool, context: Context) -> str:
    spent, missing = f"{context['costUsd']}/{context['maxCostUsd']} USD", _not_priced(context)
    if context.get("undecidable"):
        return f"Cost cannot be told, at least {spent}: {missing}"
    label = "Cost limit reached" if forbidden else "Cost under limit"
    return f"{label}: {spent}" + (f"; not counted: {missing}" if missing else "")


def _not_priced(context: Context) -> str:
    said: list[str] = []
    if "unpricedModels" in context:
        said.append(f"no price for {', '.join(map(str, _texts(context, 'unpricedModels')))}")
    if "unmeteredReplies" in context:
        said.append(f"replies that do not say what they used: {context['unmeteredReplies']}")
    if "unattributedTokens" in context:
        said.append(f"tokens of no known model: {context['unattributedTokens']}")
    return "; ".join(said)


def _nested(forbidden: bool, context: Context) -> str:
    """Speak with the voice of the nested vote that decided; without one the default text is right."""
    decider = context["resolvedBy"]
    decisive = ContinuationDecision.FORBID if forbidden else ContinuationDecision.REQUEST
    for vote in _texts(context, "evaluations"):
        if isinstance(vote, dict) and vote["criterion"] == decider and vote["decision"] == decisive:
            reason = vote.get("reason")
            if not isinstance(reason, str):
                inner = vote.get("context")
                decision = ContinuationDecision(str(vote["decision"]))
                reason = reason_for(str(decider), decision, inner if isinstance(inner, dict) else {})
            return f"{short_name(str(decider))}: {reason}"
    raise KeyError(decider)


_RENDERERS: Mapping[str, _Render] = {
    "AnswerComplete": _answer_complete,
    "CostLimit": _cost,
    "CrashLoopLimit": _crash_loop,
    "CumulativeExecutionTimeLimit": _cumulative_time,
    "ErrorPolicyCriterion": _error_policy,
    "ErrorPresenceCheck": _either("hasErrors", "Errors present in the last step", "No errors present"),
    "ExecutionTimeLimit": _execution_time,
    "FinishReasonCheck": _finish_reason,
    "InputTokenLimit": _counted(
        "Input token limit reached", "Input tokens under limit", "inputTokens", "maxInputTokens"
    ),
    "OutputTokenLimit": _counted(
        "Output token limit reached", "Output tokens under limit", "outputTokens", "maxOutputTokens"
    ),
    "PendingInput": _either(
        "unansweredInput", "Input that no model call has seen, requesting continuation", "No unanswered input"
    ),
    "ResponseContentCheck": _response,
    "RetryLimit": _counted("Retry limit reached", "Retries under limit", "consecutiveFailures", "maxRetries"),
    "StepsLimit": _counted("Step limit reached", "Steps under limit", "currentSteps", "maxSteps"),
    "TokenUsageLimit": _counted("Token limit reached", "Tokens under limit", "totalTokens", "maxTotalTokens"),
    "ToolCallLimit": _counted("Tool call limit reached", "Tool calls under limit", "toolCalls", "maxToolCalls"),
    "ToolCallPresenceCheck": _tool_calls,
    "UserStop": _user_stop,
}
