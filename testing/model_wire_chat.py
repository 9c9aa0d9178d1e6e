"""Chat Completions, as a scripted model server speaks it."""

from collections.abc import Iterator, Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.testing.model_request import why_refused, without_own
from steptrail.testing.model_wire import OpenAiWire, SseEvent, WireCall, WireReply, in_turns, pieces_of


class ChatWire(OpenAiWire):
    """The protocol behind `/v1/chat/completions`."""

    why_refused = staticmethod(why_refused)
    as_typed = staticmethod(without_own)
    path = "/v1/chat/completions"

    def body(self, reply: WireReply) -> dict[str, JsonValue]:
        """Return a completion."""
        calls: list[JsonValue] = [_call(call, call.arguments) for call in reply.calls]
        message: dict[str, JsonValue] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.chunked:
            message["content"] = list(_chunks(reply.reasoning, reply.text))
        elif reply.reasoning is not None:
            message["reasoning_content"] = reply.reasoning
        if calls:
            message["tool_calls"] = calls
        elif not reply.text and not reply.chunked:
            message["content"] = ""
        if reply.citations:
            message["annotations"] = list(_annotations(reply))
        choice: dict[str, JsonValue] = {"index": 0, "message": {**message, **reply.fields}, "logprobs": None}
        if reply.finish_reason == "content_filter" and not reply.text and not reply.calls:
            del choice["message"]
        choices: JsonValue = [{**choice, "finish_reason": reply.finish_reason}]
        return {**_head("chat.completion"), "choices": choices, "usage": dict(reply.usage)}

    def events(self, reply: WireReply, request: Mapping[str, JsonValue]) -> Iterator[SseEvent]:
        """Yield the chunks, those of the calls side by side, and the usage in a last one if it was asked for."""
        yield _chunk({"role": "assistant", "content": "" if not reply.calls else None, "refusal": None})
        yield from _chunked(reply) if reply.chunked else _plain(reply)
        for name, value in reply.fields.items():
            for piece in pieces_of(value) if isinstance(value, str) and value else [value]:
                yield _chunk({name: piece})
        if reply.citations:
            yield _chunk({"annotations": list(_annotations(reply))})
        begun: list[JsonValue] = [{"index": i, **_call(call, "")} for i, call in enumerate(reply.calls)]
        if begun:
            yield _chunk({"tool_calls": begun})
        rows = [
            [_chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}) for piece in pieces]
            for i, pieces in enumerate(pieces_of(call.arguments) for call in reply.calls)
        ]
        yield from in_turns(rows)
        if reply.finish_reason is None:
            return
        if reply.finish_reason:
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


def _head(kind: str) -> dict[str, JsonValue]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1, "model": "scripted-2026"}


def _chunk(delta: dict[str, JsonValue], finish_reason: str | None = None) -> SseEvent:
    choice: JsonValue = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return None, {**_head("chat.completion.chunk"), "choices": [choice], "usage": None}


def _call(call: WireCall, arguments: str) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {} if call.id is None else {"id": call.id}
    return {**made, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _chunks(reasoning: str | None, text: str, *, closed: bool = True) -> Iterator[JsonValue]:
    if reasoning is not None:
        done: dict[str, JsonValue] = {"closed": True} if closed else {}
        yield {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}], **done}
    if text:
        yield {"type": "text", "text": text}


def _plain(reply: WireReply) -> Iterator[SseEvent]:
    for piece in [""] if reply.reasoning == "" else pieces_of(reply.reasoning or ""):
        yield _chunk({"reasoning_content": piece})
    for piece in pieces_of(reply.text):
        yield _chunk({"content": piece})


def _chunked(reply: WireReply) -> Iterator[SseEvent]:
    """Yield a content in chunks: the first word stands in the list that ends the thinking, the others are text."""
    thoughts, words = pieces_of(reply.reasoning or ""), pieces_of(reply.text)
    for piece in thoughts[:-1]:
        yield _chunk({"content": list(_chunks(piece, "", closed=False))})
    last, first = thoughts[-1] if thoughts else None, words[0] if words else ""
    yield _chunk({"content": list(_chunks(last, first))})
    for piece in words[1:]:
        yield _chunk({"content": piece})


def _annotations(reply: WireReply) -> Iterator[JsonValue]:
    for each in reply.citations:
        link: JsonValue = {"start_index": 0, "end_index": len(reply.text), "title": each.title, "url": each.url}
        yield {"type": "url_citation", "url_citation": link}
