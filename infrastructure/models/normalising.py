"""The words and numbers of Chat Completions in our terms: why the model stopped, and what it used."""

from collections.abc import Mapping

from pydantic import JsonValue

from steptrail.domain.inference import FinishReason
from steptrail.domain.usage import Usage

__all__ = ["finish_reason", "usage"]

_FINISH_REASONS: Mapping[str, FinishReason] = {
    word: reason
    for reason, words in {
        FinishReason.STOP: ("stop", "complete", "completed", "stop_sequence", "end_turn"),
        FinishReason.LENGTH: (
            "length",
            "max_tokens",
            "max_output_tokens",
            "model_length",
            "model_context_window_exceeded",
        ),
        FinishReason.TOOL_CALLS: ("tool_call", "tool_calls", "tool_use", "function_call"),
        FinishReason.CONTENT_FILTER: (
            "content_filter",
            "refusal",
            "safety",
            "recitation",
            "blocklist",
            "language",
            "prohibited_content",
            "spii",
        ),
        FinishReason.ERROR: ("error", "malformed_function_call"),
    }.items()
    for word in words
}


def finish_reason(raw: str | None, *, has_tool_calls: bool = False) -> FinishReason:
    """Normalise a provider's word; its case does not matter.

    Providers that were made to call a tool say `stop`, or nothing, beside the calls: the calls then speak.
    """
    reason = _FINISH_REASONS.get((raw or "").lower(), FinishReason.OTHER)
    if has_tool_calls and reason in (FinishReason.STOP, FinishReason.OTHER):
        return FinishReason.TOOL_CALLS
    return reason


def usage(counts: JsonValue) -> Usage:
    """Return the tokens in disjoint kinds.

    The protocol counts cached tokens inside the prompt and reasoning inside the completion. A server whose total only
    adds up with the reasoning on top has counted it apart already.
    """
    prompt, completion = _count(counts, "prompt_tokens"), _count(counts, "completion_tokens")
    cache_read = min(_count(counts, "prompt_tokens_details", "cached_tokens"), prompt)
    cache_write = min(_count(counts, "prompt_tokens_details", "cache_write_tokens"), prompt - cache_read)
    reasoning = _count(counts, "completion_tokens_details", "reasoning_tokens")
    if _count(counts, "total_tokens") < prompt + completion + reasoning:
        reasoning = min(reasoning, completion)
        completion -= reasoning
    return Usage(
        input=prompt - cache_read - cache_write,
        output=completion,
        cache_write=cache_write,
        cache_read=cache_read,
        reasoning=reasoning,
    )


def _count(counts: JsonValue, *path: str) -> int:
    value = counts
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
