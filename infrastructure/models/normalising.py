"""The words and numbers of providers in our terms: why the model stopped, and what it used."""

from collections.abc import Mapping

from steptrail.domain.inference import FinishReason
from steptrail.domain.json_value import JsonValue
from steptrail.domain.usage import Usage
from steptrail.infrastructure.models.wire import as_number

_FINISH_REASONS: Mapping[str, FinishReason] = {
    word: reason
    for reason, words in {
        FinishReason.STOP: ("stop", "complete", "completed", "stop_sequence", "end_turn"),
        FinishReason.LENGTH: (
            "length",
            "max_tokens",
            "max_output_tokens",
            "max_messages",
            "incomplete",
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
        FinishReason.PAUSED: ("pause_turn", "queued", "in_progress"),
        FinishReason.ERROR: ("error", "malformed_function_call", "failed", "cancelled"),
    }.items()
    for word in words
}

_BESIDES = ("compaction", "advisor_message")
"""Iterations of a Messages call whose tokens are not in the sums at its top."""


def finish_reason(raw: str | None, *, has_tool_calls: bool = False) -> FinishReason:
    """Normalise a provider's word; its case does not matter.

    Providers that were made to call a tool say `stop`, or give no word, beside the calls: then the calls decide.
    """
    reason = _FINISH_REASONS.get((raw or "").lower(), FinishReason.OTHER)
    if has_tool_calls and reason in (FinishReason.STOP, FinishReason.OTHER):
        return FinishReason.TOOL_CALLS
    return reason


def usage(counts: JsonValue, *, input_name: str = "prompt", output_name: str = "completion") -> Usage:
    """Return the tokens in disjoint kinds, from counts as OpenAI's protocols name them: `prompt_tokens` and so on.

    They count cached tokens inside the input and reasoning inside the output. A server whose total only adds up with
    the reasoning on top has counted it apart already. What only the total shows is billed all the same: it is sound
    that was sent where the server counts seconds of that, and else reasoning.
    """
    taken, written = _count(counts, f"{input_name}_tokens"), _count(counts, f"{output_name}_tokens")
    reasoning = _count(counts, f"{output_name}_tokens_details", "reasoning_tokens")
    unnamed = _count(counts, "total_tokens") - taken - written - reasoning
    if unnamed < 0:
        reasoning = min(reasoning, written)
        written -= reasoning
    elif _count(counts, "prompt_audio_seconds"):
        taken += unnamed
    else:
        reasoning += unnamed
    cache_read = min(_count(counts, f"{input_name}_tokens_details", "cached_tokens"), taken)
    cache_write = min(_count(counts, f"{input_name}_tokens_details", "cache_write_tokens"), taken - cache_read)
    return Usage(
        input=taken - cache_read - cache_write,
        output=written,
        cache_write=cache_write,
        cache_read=cache_read,
        reasoning=reasoning,
    )


def anthropic_usage(counts: JsonValue) -> Usage:
    """Return the tokens in disjoint kinds, from counts that keep the cache apart and thinking inside the output.

    What the server did besides writing the message (a compaction, another model's advice) is only in `iterations`.
    """
    iterations = counts.get("iterations") if isinstance(counts, dict) else None
    found = _of_one(counts)
    for each in iterations if isinstance(iterations, list) else []:
        if isinstance(each, dict) and each.get("type") in _BESIDES:
            found += _of_one(each)
    return found


def _of_one(counts: JsonValue) -> Usage:
    written = _count(counts, "output_tokens")
    reasoning = min(_count(counts, "output_tokens_details", "thinking_tokens"), written)
    return Usage(
        input=_count(counts, "input_tokens"),
        output=written - reasoning,
        cache_write=_count(counts, "cache_creation_input_tokens"),
        cache_read=_count(counts, "cache_read_input_tokens"),
        reasoning=reasoning,
    )


def _count(counts: JsonValue, *path: str) -> int:
    value = counts
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return max(0, as_number(value) or 0)
