"""The Messages API, as a scripted model server speaks it."""

import json
from collections.abc import Iterator, Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.testing.model_request_anthropic import why_refused, without_own
from steptrail.testing.model_wire import SseEvent, WireReply, in_turns, named, pieces_of

_STOP: Mapping[str, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_CITED = "web_search_result_location"
_LONG: Mapping[str, tuple[str, str]] = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}


class AnthropicWire:
    """The protocol behind `/v1/messages`."""

    why_refused = staticmethod(why_refused)
    as_typed = staticmethod(without_own)
    path = "/v1/messages"

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Tell whether there is a key, and the version that every request names."""
        return bool(headers.get("x-api-key")) and bool(headers.get("anthropic-version"))

    def body(self, reply: WireReply) -> dict[str, JsonValue]:
        """Return a message."""
        reason = reply.finish_reason and _STOP.get(reply.finish_reason, reply.finish_reason)
        ending: dict[str, JsonValue] = {"stop_reason": reason, "stop_sequence": None, "usage": _usage(reply)}
        return {**_head(reply), "content": list(_blocks(reply)), **ending}

    def events(self, reply: WireReply, request: Mapping[str, JsonValue]) -> Iterator[SseEvent]:
        """Yield the events, those of the blocks' pieces side by side; arguments come as pieces of JSON text."""
        whole, usage = self.body(reply), _usage(reply)
        begun: JsonValue = {**_head(reply), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield named({"type": "message_start", "message": begun})
        yield named({"type": "ping"})
        rows = [list(_block_events(place, block)) for place, block in enumerate(_blocks(reply, parsed=False))]
        yield from in_turns(rows)
        if reply.finish_reason is None:
            return
        ending: JsonValue = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
        counts: JsonValue = {name: usage[name] for name in ("output_tokens", "output_tokens_details")}
        yield named({"type": "message_delta", "delta": ending, "usage": counts})
        yield named({"type": "message_stop"})

    def failure(self, code: str, message: str) -> dict[str, JsonValue]:
        """Return an error object."""
        return {"type": "error", "error": {"type": code, "message": message}}

    def failure_event(self, code: str, message: str) -> SseEvent:
        """Return an event with an error object."""
        return "error", self.failure(code, message)

    def error(self, status: int, error: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return an error object; its type follows from the status."""
        return self.failure(_TYPES.get(status, "api_error"), str(error.get("message")))


def _head(reply: WireReply) -> dict[str, JsonValue]:
    return {"id": f"msg_{reply.number}", "type": "message", "role": "assistant", "model": "scripted-2026"}


def _usage(reply: WireReply) -> dict[str, JsonValue]:
    read = reply.count("prompt_tokens_details", "cached_tokens")
    write = reply.count("prompt_tokens_details", "cache_write_tokens")
    return {
        "input_tokens": reply.count("prompt_tokens") - read - write,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": reply.count("completion_tokens"),
        "output_tokens_details": {"thinking_tokens": reply.count("completion_tokens_details", "reasoning_tokens")},
    }


def _blocks(reply: WireReply, *, parsed: bool = True) -> Iterator[dict[str, JsonValue]]:
    if reply.reasoning is not None:
        yield {"type": "thinking", "thinking": reply.reasoning, "signature": f"signed-{reply.number}=="}
    yield from reply.opaque
    if reply.text:
        cited: list[JsonValue] = [
            {
                "type": _CITED,
                "url": each.url,
                "title": each.title,
                "cited_text": each.quote,
                "encrypted_index": "Eo8B==",
            }
            for each in reply.citations
        ]
        yield {"type": "text", "text": reply.text, "citations": cited or None}
    for call in reply.calls:
        written: JsonValue = json.loads(call.arguments) if parsed else call.arguments
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": written}


def _block_events(place: int, block: dict[str, JsonValue]) -> Iterator[SseEvent]:
    kind = str(block["type"])
    deltas: list[JsonValue] = []
    begun: dict[str, JsonValue] = dict(block)
    if "input" in block:
        begun["input"] = {}
        written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces_of(written)]
    elif kind == "compaction":
        begun.clear()
        begun |= {"type": kind, "content": None}
        deltas = [{**block, "type": "compaction_delta"}]
    elif kind in _LONG:
        name, piece_kind = _LONG[kind]
        begun[name] = ""
        deltas = [{"type": piece_kind, name: piece} for piece in pieces_of(str(block[name]))]
    if isinstance(cited := block.get("citations"), list):
        begun["citations"] = []
        deltas += [{"type": "citations_delta", "citation": each} for each in cited]
    if kind == "thinking":
        begun["signature"] = ""
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    yield named({"type": "content_block_start", "index": place, "content_block": begun})
    for delta in deltas:
        yield named({"type": "content_block_delta", "index": place, "delta": delta})
    yield named({"type": "content_block_stop", "index": place})
