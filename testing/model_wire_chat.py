"""Chat Completions, as a scripted model server speaks it."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from steptrail.testing.model_request import why_refused
from steptrail.testing.model_wire import SseEvent, WireReply, in_turns, pieces_of

__all__ = ["ChatWire"]


class ChatWire:
    """The protocol behind `/v1/chat/completions`."""

    path = "/v1/chat/completions"

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Tell whether there is a bearer token."""
        return headers.get("authorization", "").startswith("Bearer ")

    def why_refused(self, body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]]) -> str | None:
        """Return why a request is answered with 400."""
        del issued  # the protocol has nothing that must come back
        return why_refused(body)

    def body(self, reply: WireReply) -> dict[str, JsonValue]:
        """Return a completion."""
        calls: list[JsonValue] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
        message: dict[str, JsonValue] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.reasoning is not None:
            message["reasoning_content"] = reply.reasoning
        if calls:
            message["tool_calls"] = calls
        elif not reply.text:
            message["content"] = ""
        choice: JsonValue = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
        return {**_head("chat.completion"), "choices": [choice], "usage": dict(reply.usage)}

    def events(self, reply: WireReply, request: Mapping[str, JsonValue]) -> Iterator[SseEvent]:
        """Yield the chunks, those of the calls side by side, and the usage in a last one if it was asked for."""
        yield _chunk({"role": "assistant", "content": "" if not reply.calls else None, "refusal": None})
        for piece in pieces_of(reply.reasoning or ""):
            yield _chunk({"reasoning_content": piece})
        for piece in pieces_of(reply.text):
            yield _chunk({"content": piece})
        begun: list[JsonValue] = [
            {"index": i, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            for i, call in enumerate(reply.calls)
        ]
        if begun:
            yield _chunk({"tool_calls": begun})
        rows = [
            [_chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}) for piece in pieces]
            for i, pieces in enumerate(pieces_of(call.arguments) for call in reply.calls)
        ]
        yield from in_turns(rows)
        if reply.finish_reason is None:
            return
        yield _chunk({}, reply.finish_reason)
        options = request.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            yield None, {**_head("chat.completion.chunk"), "choices": [], "usage": dict(reply.usage)}
        yield None, "[DONE]"

    def failure(self, code: str, message: str) -> dict[str, JsonValue]:
        """Return what gateways send with a success status."""
        return {"error": {"message": message, "type": None, "code": code}}

    def failure_event(self, code: str, message: str) -> SseEvent:
        """Return an error in the place of a chunk."""
        return None, self.failure(code, message)

    def error(self, status: int, error: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the error object."""
        return {"error": {**error, "param": None}}


def _head(kind: str) -> dict[str, JsonValue]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1, "model": "scripted-2026"}


def _chunk(delta: dict[str, JsonValue], finish_reason: str | None = None) -> SseEvent:
    choice: JsonValue = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return None, {**_head("chat.completion.chunk"), "choices": [choice], "usage": None}
