"""The spans of one stream that have begun and not ended. Agents and workflows begin and end theirs here.

Spans stand on three floors: a segment of a run; the parts of it, which are steps or visits of nodes; and tries and
waits. A part that outlives its segment ends with it and begins again in the next one, so that a pause of days holds
back no span. A try that a crash cut off ends at the last sign of life before the crash.
"""

import re
from dataclasses import dataclass, field

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.shared.parent import ParentRef
from steptrail.projections.telemetry.content import SpanContent
from steptrail.projections.telemetry.names import CONTENT, MOST_CHARACTERS, Name, Own
from steptrail.projections.telemetry.span import (
    LONGEST,
    Attribute,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    TracePer,
    bounded,
    span_id,
    trace_id,
)

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(slots=True)
class _OpenSpan:
    trace: str
    id: str
    parent: str | None
    name: str
    kind: SpanKind
    start: int
    attributes: dict[str, Attribute]
    links: tuple[SpanLink, ...] = ()
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])
    cut_at: int | None = None


@dataclass(slots=True)
class _OpenPart:
    name: str
    attributes: dict[str, Attribute]
    span: _OpenSpan


class OpenSpans:
    """The memory of one stream: names, ids, numbers, instants, and content only of spans that are open.

    With a trace for each segment no span has its parent in another stream, since no stream knows the segments of
    others: `steptrail.parent.effect_id` names what began it.
    """

    def __init__(self, stream: str, *, parts: bool, trace_per: TracePer, content: SpanContent | None) -> None:
        self._stream, self._with_parts, self._trace_per = stream, parts, trace_per
        self.content = content
        """How content is told; None when it is not."""
        self._root: tuple[str, str] | None = None
        self._above: str | None = None
        self._begun_by: dict[str, Attribute] = {}
        self._trace, self._execution = trace_id(stream, ""), ""
        self._segment: _OpenSpan | None = None
        self._last: SpanLink | None = None
        self._parts: dict[str, _OpenPart] = {}
        self._tries: dict[str, _OpenSpan] = {}
        self._wait: _OpenSpan | None = None
        self._paused_wait = ""
        self._alive = 0
        self._ended: list[Span] = []

    def take(self) -> tuple[Span, ...]:
        """Return the spans that have ended since the last call."""
        taken, self._ended = tuple(self._ended), []
        return taken

    @property
    def is_waiting(self) -> bool:
        """Whether a wait is open."""
        return self._wait is not None

    def live(self, at: int) -> None:
        """Note a sign of life of the process that runs the stream."""
        self._alive = max(self._alive, at)

    def below(self, parent: ParentRef) -> None:
        """Put all spans of the stream below the first try of the effect that began it."""
        self._root = (parent.root_stream, parent.top_execution)
        self._begun_by = {Own.PARENT_EFFECT: parent.effect}
        if self._trace_per != "segment":
            self._above = span_id(parent.stream, f"effect {parent.effect}")

    def begin_execution(self, execution: str, *, goes_on: bool = False) -> None:
        """Begin a run. Its first segment is linked to the last one of the run before if it `goes_on` with that."""
        self._execution = execution
        stream, run = self._root or (self._stream, execution)
        self._trace = trace_id(stream, "" if self._trace_per == "session" else run)
        if not goes_on:
            self._last = None

    def begin_segment(
        self, name: str, version: int, at: int, attributes: dict[str, Attribute], context: JsonValue = None
    ) -> None:
        """Begin a segment, and in it the parts that were open. One that is open ended at the last sign of life."""
        for cut in self._tries.values():
            cut.cut_at = self._alive if cut.cut_at is None else cut.cut_at
        self.end_segment(self._alive)
        links = [self._last] if self._last is not None else []
        if isinstance(context, dict) and isinstance(caller := context.get("traceparent"), str):
            links += [SpanLink(*match.groups()) for match in [_TRACEPARENT.fullmatch(caller)] if match is not None]
        if self._trace_per == "segment":
            self._trace = trace_id(self._stream, f"segment {version}")
        about = {**attributes, **self._begun_by}
        self._segment = self._made(name, version, at, self._above, about, start=f"segment {version}")
        self._segment.links, self._alive = tuple(links), at
        for key, part in self._parts.items():
            part.span = self._made(
                part.name, version, at, self._segment.id, part.attributes, start=f"part {version} {key}"
            )

    def end_segment(self, at: int, *, is_error: bool = False) -> None:
        """End the segment that is open, and all its parts. They begin again with the next segment."""
        if self._segment is None:
            return
        for part in self._parts.values():
            self._end(part.span, at)
        self._end(self._segment, at, is_error=is_error)
        self._last, self._segment = SpanLink(self._segment.trace, self._segment.id), None

    def note_segment(self, attributes: dict[str, Attribute]) -> None:
        """Add attributes to the segment that is open."""
        if self._segment is not None:
            self._segment.attributes |= attributes

    def finish(self, name: str, version: int, at: int, attributes: dict[str, Attribute], *, is_error: bool) -> None:
        """End the run and everything that is open in it. A run that nobody took up has a segment without length."""
        if self._segment is None:
            self.begin_segment(name, version, at, {})
        for key in tuple(self._tries):
            self.end_try(key, at, {Own.STATUS: "interrupted"})
        self.end_wait(at, "finished")
        self.note_segment(attributes)
        self.end_segment(at, is_error=is_error)
        self._parts.clear()

    def begin_part(self, key: str, name: str, version: int, at: int, attributes: dict[str, Attribute]) -> None:
        """Begin a step, or the visit of a node."""
        if self._with_parts:
            self.end_part(key, at, {})
            segment = self._segment.id if self._segment is not None else self._above
            span = self._made(name, version, at, segment, attributes, start=f"part {version} {key}")
            self._parts[key] = _OpenPart(name, attributes, span)

    def end_part(self, key: str, at: int, attributes: dict[str, Attribute]) -> None:
        """End a step, or the visit of a node."""
        part = self._parts.pop(key, None)
        if part is not None and self._segment is not None:
            part.span.attributes |= attributes
            self._end(part.span, at)

    def begin_try(
        self,
        key: str,
        name: str,
        version: int,
        at: int,
        attributes: dict[str, Attribute],
        *,
        part: str,
        kind: SpanKind = SpanKind.INTERNAL,
        effect: str | None = None,
    ) -> None:
        """Begin a try in a step or visit. `effect` is given for the first try of an effect: a child knows no more."""
        self.end_try(key, at, {Own.STATUS: "interrupted"})
        start = f"try {version}" if effect is None else f"effect {effect}"
        self._tries[key] = self._made(name, version, at, self._parent(part), attributes, start=start, kind=kind)

    def end_try(self, key: str, at: int, attributes: dict[str, Attribute], *, is_error: bool = False) -> None:
        """End a try, unless it has ended."""
        if (ended := self._tries.pop(key, None)) is not None:
            ended.attributes |= attributes
            self._end(ended, at if ended.cut_at is None else ended.cut_at, is_error=is_error)

    def told(self, name: str, value: JsonValue) -> dict[str, Attribute]:
        """Return an attribute with a value that is content; none where content is not told."""
        return self.content.value(name, value) if self.content is not None else {}

    def fail_try(self, key: str, at: int, error: ErrorInfo) -> None:
        """End a try with an error, unless it has ended."""
        words = self.content.error(error) if self.content is not None else {}
        self.end_try(key, at, {Own.STATUS: "failed", Name.ERROR_TYPE: error.error_class, **words}, is_error=True)

    def begin_wait(self, kind: str, version: int, at: int) -> None:
        """Begin a wait. A wait that is open ends."""
        self.end_wait(at, "superseded")
        parent = self._parent("step")
        self._wait = self._made(f"wait {kind}", version, at, parent, {Own.WAIT: kind}, start=f"wait {version}")

    def pause_wait(self, at: int) -> None:
        """End the wait that is open for the time of a pause, which is no part of it."""
        kind = self._paused_wait if self._wait is None else str(self._wait.attributes[Own.WAIT])
        self.end_wait(at, "paused")
        self._paused_wait = kind

    def go_on_waiting(self, version: int, at: int) -> None:
        """Begin the wait again that a pause has come into and that is not over."""
        if self._paused_wait:
            self.begin_wait(self._paused_wait, version, at)

    def end_wait(self, at: int, reason: str) -> None:
        """End the wait that is open, or that a pause has come into, if there is one."""
        self._paused_wait = ""
        if self._wait is not None:
            self._wait.attributes[Own.STATUS] = reason
            self._end(self._wait, at)
            self._wait = None

    def event(self, name: str, at: int, attributes: dict[str, Attribute]) -> None:
        """Put an event on the segment that is open."""
        if self._segment is not None:
            self._segment.events.append(SpanEvent(name, at, _bounded(attributes)))

    def _parent(self, part: str) -> str | None:
        if (found := self._parts.get(part)) is not None:
            return found.span.id
        return self._segment.id if self._segment is not None else self._above

    def _made(
        self,
        name: str,
        version: int,
        at: int,
        parent: str | None,
        attributes: dict[str, Attribute],
        *,
        start: str,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> _OpenSpan:
        all_of_them: dict[str, Attribute] = {
            Name.CONVERSATION_ID: id_of(self._stream),
            Own.SESSION_ID: id_of(self._stream),
            Own.EXECUTION_ID: self._execution,
            Own.VERSION: version,
            **attributes,
        }
        return _OpenSpan(self._trace, span_id(self._stream, start), parent, name, kind, at, all_of_them)

    def _end(self, span: _OpenSpan, at: int, *, is_error: bool = False) -> None:
        made = Span(
            trace_id=span.trace,
            span_id=span.id,
            parent_id=span.parent,
            name=bounded(span.name),
            kind=span.kind,
            start=span.start,
            end=max(span.start, at),
            attributes=_bounded(span.attributes),
            events=tuple(span.events),
            links=span.links,
            is_error=is_error,
        )
        self._ended.append(made)


def _bounded(attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    return {
        str(name): bounded(value, MOST_CHARACTERS if name in CONTENT else LONGEST) if isinstance(value, str) else value
        for name, value in attributes.items()
    }
