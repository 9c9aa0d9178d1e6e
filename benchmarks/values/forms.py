"""The three forms behind one interface, and the five events of a real run as each of them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from benchmarks.sqlite_place import SqliteSite
from benchmarks.values import slotted, structs
from benchmarks.values.plain_codec import PlainCodec
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail, events
from steptrail.domain import inference, messages, usage
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.infrastructure.store.core.contents import joined

__all__ = ["FORMS", "READS", "Form", "Sample", "samples"]

_TYPES = (
    "inference.completed.v1",
    "tool.execution.started.v1",
    "tool.execution.completed.v1",
    "evaluations.recorded.v2",
    "step.completed.v1",
)
_INSTANT = len(b'{"@":1800000000000000,')


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to write the classes down. `classes` has each under the same name in every form."""

    name: str
    classes: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[str, bytes], Any]
    decoders: Mapping[str, Callable[[bytes], Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A stored event of a real run, without its instant, and the code that builds it in any of the forms."""

    type: str
    written: bytes
    build: Callable[[Any], Any]


def _pydantic() -> Form:
    known: list[Any] = [events.InferenceCompleted, events.ToolExecutionStarted, events.ToolExecutionCompleted]
    known += [events.EvaluationsRecorded, events.StepCompleted]
    inside = (messages.TextPart, messages.ToolCallPart, inference.ModelReply, usage.Usage)
    classes = SimpleNamespace(Vote=ContinuationEvaluation, **{cls.__name__: cls for cls in (*known, *inside)})
    decoders = {cls.TYPE: cls.__pydantic_validator__.validate_json for cls in known}

    def encode(event: Any) -> bytes:
        serializer: Any = event.__pydantic_serializer__
        written: bytes = serializer.to_json(event, by_alias=True, exclude_defaults=True)
        return written

    return Form(
        name="pydantic",
        classes=classes,
        encode=encode,
        decode=lambda kind, written: decoders[kind](written),
        decoders=decoders,
    )


def _structs() -> Form:
    known: list[Any] = [structs.InferenceCompleted, structs.ToolExecutionStarted, structs.ToolExecutionCompleted]
    known += [structs.EvaluationsRecorded, structs.StepCompleted]
    decoders = {cls.TYPE: msgspec.json.Decoder(cls).decode for cls in known}
    return Form(
        name="msgspec",
        classes=structs,
        encode=msgspec.json.Encoder().encode,
        decode=lambda kind, written: decoders[kind](written),
        decoders=decoders,
    )


def _slotted() -> Form:
    known: list[Any] = [slotted.InferenceCompleted, slotted.ToolExecutionStarted, slotted.ToolExecutionCompleted]
    known += [slotted.EvaluationsRecorded, slotted.StepCompleted]
    codecs = {cls: PlainCodec(cls) for cls in known}
    decoders = {cls.TYPE: codec.decode for cls, codec in codecs.items()}
    return Form(
        name="dataclass",
        classes=slotted,
        encode=lambda event: codecs[type(event)].encode(event),
        decode=lambda kind, written: decoders[kind](written),
        decoders=decoders,
    )


FORMS = (_pydantic(), _structs(), _slotted())


def samples(scratch: Path) -> list[Sample]:
    """Run two steps with a tool call each, and return the events of the second."""
    place = SqliteSite(scratch).fresh()

    async def once() -> None:
        async with Steptrail.open(place.url) as trail:
            await run(trail, agent(2), session_name(0))

    asyncio.run(once())
    rows = place.rows()
    at = [rows.columns.index(name) for name in ("type", "state", "content")]
    stored: list[Any] = [[row[place] for place in at] for commit in rows.commits for row in commit]
    found: list[Sample] = []
    for kind in _TYPES:
        wholes = [joined(kind, state, content) for name, state, content in stored if name == kind]
        event = FORMS[0].decode(kind, b"{" + wholes[1][_INSTANT:])
        # Joined, the fields of an event stand in another order than a form writes them in.
        found.append(Sample(kind, FORMS[0].encode(event), _BUILDERS[kind](event)))
    return found


def _inference_completed(event: Any) -> Callable[[Any], Any]:
    text, call = event.reply.parts
    used = event.reply.usage

    def build(form: Any) -> Any:
        parts = (form.TextPart(text=text.text), form.ToolCallPart(id=call.id, name=call.name, arguments=call.arguments))
        billed = form.Usage(input=used.input, output=used.output)
        reply = form.ModelReply(parts=parts, finish_reason=event.reply.finish_reason, usage=billed)
        return form.InferenceCompleted(reply=reply, duration_seconds=event.duration_seconds)

    return build


def _tool_started(event: Any) -> Callable[[Any], Any]:
    return lambda form: form.ToolExecutionStarted(
        position=event.position,
        call_id=event.call_id,
        tool=event.tool,
        effect_id=event.effect_id,
        effect=event.effect,
        arguments_digest=event.arguments_digest,
    )


def _tool_completed(event: Any) -> Callable[[Any], Any]:
    return lambda form: form.ToolExecutionCompleted(
        position=event.position, result=event.result, duration_seconds=event.duration_seconds
    )


def _votes_recorded(event: Any) -> Callable[[Any], Any]:
    votes = [(vote.criterion_class, vote.decision, vote.context, vote.setting) for vote in event.votes[:10]]
    return lambda form: form.EvaluationsRecorded(
        votes=tuple(
            [form.Vote(criterion_class=name, decision=said, context=on, setting=by) for name, said, on, by in votes]
        )
    )


def _step_completed(event: Any) -> Callable[[Any], Any]:
    return lambda form: form.StepCompleted(number=event.number, duration_seconds=event.duration_seconds)


_BUILDERS = dict(
    zip(_TYPES, (_inference_completed, _tool_started, _tool_completed, _votes_recorded, _step_completed), strict=True)
)


def _look_at_reply(form: Any, event: Any) -> object:
    reply = event.reply
    used = reply.usage
    total = used.input + used.output + used.cache_write + used.cache_read + used.reasoning
    calls = [part.name for part in reply.parts if isinstance(part, form.ToolCallPart)]
    return total, calls, reply.finish_reason, reply.response_model, event.duration_seconds


def _look_at_start(form: Any, event: Any) -> object:
    del form
    return event.position, event.call_id, event.tool, event.effect_id, event.effect, event.attempt


def _look_at_result(form: Any, event: Any) -> object:
    del form
    return event.position, event.result, event.duration_seconds, event.shown_characters, event.settled_by, event.usage


def _look_at_votes(form: Any, event: Any) -> object:
    del form
    return [(vote.criterion_class, vote.decision, vote.stop_reason, vote.fails) for vote in event.votes], event.phase


def _look_at_step(form: Any, event: Any) -> object:
    del form
    return event.number, event.duration_seconds, event.errors, event.cost


READS: dict[str, Callable[[Any, Any], object]] = dict(
    zip(_TYPES, (_look_at_reply, _look_at_start, _look_at_result, _look_at_votes, _look_at_step), strict=True)
)
"""Stored type -> the reading of its fields that a fold does."""
