"""The content of spans, for those who ask for it: masked as on pages, cut, and in the form of the conventions."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import extend, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import (
    FilePart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.projections.masking import Masking, shortened
from steptrail.projections.telemetry.names import MOST_CHARACTERS, Name, Own
from steptrail.projections.telemetry.span import Attribute

_LONGEST_TEXT = 8_000
"""Characters of one text. What is longer is cut, so that a long result leaves the other messages."""


@dataclass(frozen=True)
class SpanContent:
    """Content on spans, for those who ask for it, with how it is masked.

    `asked` returns what a model is asked in a state.
    """

    masking: Masking
    asked: Callable[[AgentState, AgentSnapshot], Sequence[Message]]

    def value(self, name: str, value: JsonValue) -> dict[str, Attribute]:
        """Return an attribute with a value that is JSON."""
        return {name: _json(self._value(value))}

    def error(self, error: ErrorInfo) -> dict[str, Attribute]:
        """Return the message of an error."""
        return {Name.EXCEPTION_MESSAGE: self.masking.text(error.message)}

    def reply(self, reply: ModelReply) -> dict[str, Attribute]:
        """Return what a model has said."""
        parts, reason = self._parts(reply.parts), reply.finish_reason.value
        return {Name.OUTPUT_MESSAGES: _json([{"role": "assistant", "parts": parts, "finish_reason": reason}])}

    def request(self, messages: Sequence[Message]) -> dict[str, Attribute]:
        """Return what a model is asked: the instructions, and of the messages the newest that there is room for."""
        about: dict[str, Attribute] = {}
        place = next((place for place, message in enumerate(messages) if not message.is_system()), len(messages))
        if place:
            parts = [part for message in messages[:place] for part in message.parts]
            about[Name.SYSTEM_INSTRUCTIONS] = _json(self._parts(parts))
        room, told = MOST_CHARACTERS - 2, list[str]()
        for message in reversed(messages[place:]):
            text = _json({"role": message.role.value, "parts": self._parts(message.parts)})
            room -= len(text) + 1
            if room < 0:
                about[Own.LEFT_OUT] = len(messages) - place - len(told)
                break
            told.append(text)
        about[Name.INPUT_MESSAGES] = f"[{','.join(reversed(told))}]"
        return about

    def _parts(self, parts: Sequence[Part]) -> list[JsonValue]:
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> JsonValue:
        match part:
            case TextPart(text=text):
                return {"type": "text", "content": self._text(text)}
            case ReasoningPart(text=text):
                return {"type": "reasoning", "content": self._text(text)}
            case ToolCallPart(id=call, name=name, arguments=None):
                return {"type": "tool_call", "id": call, "name": name, "arguments": self._text(part.raw or "")}
            case ToolCallPart(id=call, name=name, arguments=arguments):
                return {"type": "tool_call", "id": call, "name": name, "arguments": self._value(arguments)}
            case ToolResultPart(call_id=call, text=text):
                return {"type": "tool_call_response", "id": call, "response": self._text(text)}
            case MediaPart(uri=uri, mime_type=mime_type):
                return {"type": "uri", "uri": self._text(uri), "mime_type": mime_type}
            case FilePart(digest=digest, mime_type=mime_type):
                return {"type": "file", "file_id": digest, "mime_type": mime_type}
            case _:
                return {"type": part.kind}  # data for its provider alone

    def _text(self, text: str) -> JsonValue:
        return shortened(self.masking.text(text), _LONGEST_TEXT)

    def _value(self, value: JsonValue) -> JsonValue:
        return shortened(self.masking.value(value), _LONGEST_TEXT)


class AgentContent:
    """The content of one session. It holds the conversation, from which a model is asked."""

    def __init__(self, session: str, content: SpanContent) -> None:
        self._state, self._content = initial(session), content

    def begin_at(self, state: AgentState) -> None:
        """Begin with a state, which nobody else may use afterwards: that of a fork holds its past."""
        self._state = state

    def apply(self, event: AgentEvent, version: int, at: int) -> None:
        """Apply an event, after its spans were begun and ended. The state that it began with has some already."""
        if version > self._state.version:
            self._state = extend(self._state, (Recorded(version, at, event),))

    def request(self) -> dict[str, Attribute]:
        """Return what the model is asked that is about to be called."""
        agent = self._state.agent
        return {} if agent is None else self._content.request(self._content.asked(self._state, agent))

    def arguments(self, position: int) -> dict[str, Attribute]:
        """Return the arguments of a call that is about to start, as hooks and people left them."""
        calls = self._state.tool_executions
        if position >= len(calls):
            return {}
        call = calls[position]
        given = call.call.raw if call.arguments is None else call.arguments
        return self._content.value(Name.TOOL_ARGUMENTS, given)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
