"""The content of a Chat Completions message: text, or a list of chunks, or JSON where text was asked to be JSON.

Models that think may write a list: chunks of thinking, of text, and of what only their provider knows. In a stream its
pieces come as lists and as text, mixed.
"""

import json
from collections.abc import Iterator, Mapping

from steptrail.domain.inference import ModelDelta
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Part, ReasoningPart, TextPart
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.opaque import beside, others, whole
from steptrail.infrastructure.models.wire import as_list, as_object, clean

_LAST_THOUGHT = "closed"
"""Marks a chunk of thinking to which no more is added."""


class ContentPieces:
    """The content of one message while it is being written."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._chunks: list[dict[str, JsonValue]] = []
        self._other: JsonValue = None

    def add(self, content: JsonValue) -> Iterator[ModelDelta]:
        """Take a piece and yield what it says for people."""
        match content:
            case str():
                if self._chunks:
                    self._add_text(content)
                else:
                    self._text.append(content)
                yield ModelDelta(content)
            case list() if _are_chunks(content):
                if not self._chunks and (begun := "".join(self._text)):
                    self._chunks.append({"type": "text", "text": begun})
                for chunk in map(as_object, content):
                    yield from self._add_chunk(chunk)
            case None:
                pass
            case _:
                self._other = content
                yield ModelDelta(_json(content))

    def body(self) -> JsonValue:
        """Return the content as it is without streaming."""
        if self._other is not None:
            return self._other
        if self._chunks:
            return list[JsonValue](self._chunks)
        return "".join(self._text) if self._text else None

    def _add_chunk(self, chunk: dict[str, JsonValue]) -> Iterator[ModelDelta]:
        text = chunk.get("text")
        if chunk.get("type") == "text" and isinstance(text, str):
            self._add_text(text, others(chunk, "type", "text"))
            yield ModelDelta(text)
        elif chunk.get("type") == "thinking":
            thoughts, last = as_list(chunk.get("thinking")), self._chunks[-1] if self._chunks else {}
            if last.get("type") == "thinking" and not last.get(_LAST_THOUGHT):
                told = _joined([*as_list(last.get("thinking")), *thoughts])
                last |= {**others(chunk, "type", "thinking"), "thinking": told}
            else:
                self._chunks.append({**chunk, "thinking": _joined(thoughts)})
            yield ModelDelta(_thought(thoughts), kind="reasoning")
        else:
            self._chunks.append(chunk)

    def _add_text(self, text: str, fields: Mapping[str, JsonValue] | None = None) -> None:
        last = self._chunks[-1] if self._chunks else {}
        before = last.get("text")
        if last.get("type") == "text" and isinstance(before, str):
            last |= {**(fields or {}), "text": before + text}
        elif text:
            self._chunks.append({"type": "text", **(fields or {}), "text": text})


def content_parts(content: JsonValue, provider: str) -> Iterator[Part]:
    """Yield the parts of a content. Raises `ModelReplyInvalid` for what is none."""
    match content:
        case None | "":
            return
        case str():
            yield TextPart(text=clean(content))
        case list() if _are_chunks(content):
            pieces = ContentPieces()
            for _ in pieces.add(content):
                pass
            for chunk in map(as_object, as_list(pieces.body())):
                yield from _chunk_parts(chunk, provider)
        case dict() | list():
            yield TextPart(text=clean(_json(content)))
        case _:
            raise ModelReplyInvalid(f"the content of its message is a {type(content).__name__}")


def thinking_chunk(text: str, fields: Mapping[str, JsonValue]) -> JsonValue:
    """Return a chunk of thinking as it came."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **fields}


def _chunk_parts(chunk: Mapping[str, JsonValue], provider: str) -> Iterator[Part]:
    text = chunk.get("text")
    if chunk.get("type") == "text" and isinstance(text, str):
        yield from beside(provider, TextPart(text=clean(text)), others(chunk, "type", "text"))
        return
    thoughts = as_list(chunk.get("thinking"))
    shown = ReasoningPart(text=clean(_thought(thoughts)))
    if chunk.get("type") == "thinking" and shown.text and all(_is_plain(each) for each in thoughts):
        yield from beside(provider, shown, {"chunk": others(chunk, "type", "thinking")})
        return
    if shown.text:
        yield shown
    yield whole(provider, dict(chunk))


def _are_chunks(content: list[JsonValue]) -> bool:
    return all(isinstance(as_object(each).get("type"), str) for each in content)


def _is_plain(thought: JsonValue) -> bool:
    return as_object(thought).keys() == {"type", "text"}


def _thought(thoughts: list[JsonValue]) -> str:
    texts = [as_object(each).get("text") for each in thoughts]
    return "".join(text for text in texts if isinstance(text, str))


def _joined(thoughts: list[JsonValue]) -> list[JsonValue]:
    """Return thoughts with texts that follow each other as one."""
    joined: list[JsonValue] = []
    for thought in thoughts:
        last = as_object(joined[-1]) if joined else {}
        if _is_plain(thought) and last.keys() == {"type", "text"}:
            joined[-1] = {"type": "text", "text": _thought([last, thought])}
        else:
            joined.append(thought)
    return joined


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
