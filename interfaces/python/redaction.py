"""Redaction: values taken out of a recording by the names of keys, in contexts, arguments and results of tools.

The rest of the log stays true: digests of arguments and of requests are made anew of the remaining values, so a
redacted recording replays like any other. An agent that compacts goes by the lengths of texts, though: where long
values of results are gone, its replay may compact otherwise, and then it is a mismatch.
"""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalGranted,
    ApprovalRequested,
    InferenceCompleted,
    InferenceStarted,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.digests import digest_of
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.events import FlowEvent, FlowForked, FlowStarted, NodeFailed, NodeFailureRecorded
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row, a_text
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message, MessageRole, Part, TextPart, ToolCallPart, ToolResultPart
from steptrail.domain.storable import as_unicode
from steptrail.domain.tools import result_text
from steptrail.interfaces.python.recording import FlowRecording, Recording
from steptrail.runtime.agent.request import Requests

REDACTED: Final = "[redacted]"
"""The text in the place of a value."""

T = TypeVar("T")


def redact(recording: Recording, keys: Collection[str]) -> Recording:
    """Return the recording without the values of these keys, however deep, in arguments and results of tools.

    So also in contexts, and in the conversation that a session began with. Case does not count. A text in them, and an
    answer, is looked into when it is JSON. Prompts, instructions, summaries, errors, metadata and data that only a
    provider can read stay as they are: look at those yourself before you share a recording. Raises
    `ConfigurationError` for a text in the place of the keys, which would redact its letters, and for a key that is no
    text.
    """
    if not (keys := a_row(keys, "`keys` to redact")):
        return recording
    redaction, requests = _Redaction(keys), Requests()
    state, records = initial(recording.session), list[Recorded[AgentEvent]]()
    for record in recording.records:
        event = _made_true(redaction.event(record.event), state, requests)
        records.append(structs.replace(record, event=event))
        state = evolve_all(state, records[-1:])
    return Recording(recording.session, records, tuple(sorted({*recording.redacted, *keys})))


def redact_flow(recording: FlowRecording, keys: Collection[str]) -> FlowRecording:
    """Return the recording of a run without the values of these keys, however deep, in all that its events hold.

    So in inputs, variables, results, questions and answers, in messages and in what is told of artifacts, and in the
    recorded workflow. Case does not count. Texts that were made of such values, such as prompts and errors, stay.
    """
    if not (keys := a_row(keys, "`keys` to redact")):
        return recording
    redaction = _Redaction(keys)
    records = [structs.replace(record, event=redaction.flow_event(record.event)) for record in recording.records]
    return replace(recording, records=records, redacted=tuple(sorted({*recording.redacted, *keys})))


def redacted_value(value: JsonValue, keys: Collection[str]) -> JsonValue:
    """Return a value as it stands in what was redacted."""
    return _Redaction(keys).value(value)


def _made_true(event: AgentEvent, state: AgentState, requests: Requests) -> AgentEvent:
    match event:
        case InferenceStarted() if state.agent is not None:
            request = requests.build(state, state.agent)
            return structs.replace(event, request_digest=requests.digest(request))
        case (
            ToolExecutionStarted(position=position)
            | ToolCallDeferred(position=position)
            | ApprovalRequested(position=position)
        ):
            calls = state.tool_executions
            if position < len(calls):
                return structs.replace(event, arguments_digest=calls[position].arguments_digest)
        case _:
            pass
    return event


class _Redaction:
    def __init__(self, keys: Collection[str]) -> None:
        self._keys = {a_text(key, "a key to redact").casefold() for key in keys}

    def event(self, event: AgentEvent) -> AgentEvent:
        match event:
            case InferenceCompleted(reply=reply):
                parts = tuple(self._part(part) for part in reply.parts)
                return structs.replace(event, reply=structs.replace(reply, parts=parts))
            case ApprovalGranted(arguments=dict() as arguments):
                kept = self.value(arguments)
                return structs.replace(event, arguments=kept, arguments_digest=digest_of(kept))
            case ToolExecutionCompleted(result=result) | ToolExecutionSettledLate(result=result):
                told = self.value(result)
                cut = event.shown_characters
                shown = cut if cut is not None and len(result_text(told)) > cut else None
                return structs.replace(event, result=told, shown_characters=shown)
            case _:
                # Whatever JSON another event, such as an amended call, has among its content.
                content = {name: self.value(getattr(event, name)) for name in event.CONTENT}
                return structs.replace(event, **content) if content else event

    def flow_event(self, event: FlowEvent) -> FlowEvent:
        content: dict[str, object] = {name: self.value(getattr(event, name)) for name in event.CONTENT}
        match event:
            case FlowStarted(definition=definition) | FlowForked(definition=definition):
                content["definition"] = self.value(definition)
            case NodeFailed(error=error) | NodeFailureRecorded(error=error):
                content["error"] = structs.replace(error, details=self.value(error.details))
            case _:
                pass
        return structs.replace(event, **content) if content else event

    def _part(self, part: Part) -> Part:
        if isinstance(part, TextPart | ToolResultPart):
            # An answer in a type is JSON, and so are most results; any other text stays as it is.
            return structs.replace(part, text=self.value(part.text))
        if not isinstance(part, ToolCallPart):
            return part
        raw = part.raw if part.raw is None or not self._may_hold(part.raw) else REDACTED
        return structs.replace(part, arguments=self.value(part.arguments), raw=raw)

    def value(self, value: T) -> T:
        return cast("T", self._without(value))

    def _without(self, value: Any) -> object:
        match value:
            case dict():
                inside = cast("dict[str, object]", value).items()
                return {key: REDACTED if key.casefold() in self._keys else self._without(each) for key, each in inside}
            case list():
                return [self._without(each) for each in cast("list[object]", value)]
            case tuple():
                return tuple(self._without(each) for each in cast("tuple[object, ...]", value))
            case Message(role=MessageRole.ASSISTANT | MessageRole.TOOL, parts=parts):
                return structs.replace(value, parts=tuple(self._part(part) for part in parts))
            case Artifact(meta=meta):
                return structs.replace(value, meta=self.value(meta))
            case str() if self._may_hold(value):
                return self._within_text(value)
            case _:
                return value

    def _within_text(self, text: str) -> str:
        try:
            content: JsonValue = json.loads(text)
            kept = self.value(content)
            return text if kept == content else as_unicode(json.dumps(kept, ensure_ascii=False))
        except json.JSONDecodeError:
            return text
        except (RecursionError, ValueError):  # it is nested too deeply, or a number is too long, to be looked into
            return REDACTED

    def _may_hold(self, text: str) -> bool:
        """Tell whether a text may hold one of the keys. JSON may have any letter as an escape."""
        return "\\u" in text or any(key in text.casefold() for key in self._keys)
