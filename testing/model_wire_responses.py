"""The Responses API, as a scripted model server speaks it."""

from collections.abc import Iterator, Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.testing.model_request_responses import why_refused, without_own
from steptrail.testing.model_wire import OpenAiWire, SseEvent, WireReply, in_turns, named, pieces_of

_INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesWire(OpenAiWire):
    """The protocol behind `/v1/responses`."""

    why_refused = staticmethod(why_refused)
    as_typed = staticmethod(without_own)
    path = "/v1/responses"

    def body(self, reply: WireReply) -> dict[str, JsonValue]:
        """Return a response."""
        incomplete = _INCOMPLETE.get(reply.finish_reason or "")
        word = "completed" if reply.finish_reason in ("stop", "tool_calls") else reply.finish_reason
        taken, written = reply.count("prompt_tokens"), reply.count("completion_tokens")
        return {
            **_head(reply, "incomplete" if incomplete else word),
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "output": list(_items(reply)),
            "usage": {
                "input_tokens": taken,
                "input_tokens_details": {
                    "cached_tokens": reply.count("prompt_tokens_details", "cached_tokens"),
                    "cache_write_tokens": reply.count("prompt_tokens_details", "cache_write_tokens"),
                },
                "output_tokens": written,
                "output_tokens_details": {
                    "reasoning_tokens": reply.count("completion_tokens_details", "reasoning_tokens")
                },
                "total_tokens": taken + written,
            },
        }

    def events(self, reply: WireReply, request: Mapping[str, JsonValue]) -> Iterator[SseEvent]:
        """Yield the events, those of the items' pieces side by side, and last the whole response."""
        items = list(_items(reply))
        yield named({"type": "response.created", "response": {**_head(reply, "in_progress"), "output": []}})
        for place, item in enumerate(items):
            yield named({"type": "response.output_item.added", "output_index": place, "item": _begun(item)})
        yield from in_turns([list(_deltas(place, item)) for place, item in enumerate(items)])
        for place, item in enumerate(items):
            yield named({"type": "response.output_item.done", "output_index": place, "item": item})
        if reply.finish_reason is None:
            return
        whole = self.body(reply)
        ending = "incomplete" if whole["status"] == "incomplete" else "completed"
        yield named({"type": f"response.{ending}", "response": whole})

    def failure(self, code: str, message: str) -> dict[str, JsonValue]:
        """Return a response that has failed."""
        head = {"id": "resp_failed", "object": "response", "model": "scripted-2026", "status": "failed"}
        return {**head, "error": {"code": code, "message": message}, "output": []}

    def failure_event(self, code: str, message: str) -> SseEvent:
        """Return the event of a response that has failed."""
        return named({"type": "response.failed", "response": self.failure(code, message)})


def _head(reply: WireReply, status: str | None) -> dict[str, JsonValue]:
    head: dict[str, JsonValue] = {"id": f"resp_{reply.number}", "object": "response", "created_at": 1}
    return {**head, "model": "scripted-2026", "status": status, "error": None}


def _items(reply: WireReply) -> Iterator[dict[str, JsonValue]]:
    number = reply.number
    if reply.reasoning is not None:
        summary: JsonValue = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
        yield {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{number}=="}
    yield from reply.opaque
    if reply.text:
        cited: list[JsonValue] = [
            {"type": "url_citation", "start_index": 0, "end_index": len(reply.text), "title": title, "url": url}
            for url, title, _ in reply.citations
        ]
        said: JsonValue = [{"type": "output_text", "text": reply.text, "annotations": cited, "logprobs": []}]
        message: dict[str, JsonValue] = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        yield {**message, "status": "completed", "content": said}
    for place, call in enumerate(reply.calls, 1):
        made: dict[str, JsonValue] = {"id": f"fc_{number}_{place}", "type": "function_call", "status": "completed"}
        yield {**made, "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _begun(item: Mapping[str, JsonValue]) -> JsonValue:
    empty: Mapping[str, JsonValue] = {"arguments": "", "content": [], "summary": [], "encrypted_content": None}
    return {name: empty.get(name, value) for name, value in item.items()}


def _deltas(place: int, item: Mapping[str, JsonValue]) -> Iterator[SseEvent]:
    match item:
        case {"type": "reasoning", "summary": [{"text": str(text)}]}:
            kind = "response.reasoning_summary_text.delta"
        case {"type": "message", "content": [{"text": str(text)}]}:
            kind = "response.output_text.delta"
        case {"type": "function_call", "arguments": str(text)}:
            kind = "response.function_call_arguments.delta"
        case _:
            return
    for piece in pieces_of(text):
        yield named({"type": kind, "item_id": item.get("id"), "output_index": place, "delta": piece})
