"""Folds the events of one stream into spans, of an agent or a workflow. It gives each span once, when it has ended."""

from collections.abc import Iterable, Mapping

from steptrail.domain.agent.ids import STREAM_PREFIX as AGENTS
from steptrail.domain.agent.state import AgentState
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.kernel.by_prefix import prefix_of
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import ExecutionFinished, ExecutionPaused, SessionStarted, WaitEnded, WaitStarted
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.projections.telemetry.agent_spans import AgentSpans
from steptrail.projections.telemetry.content import SpanContent
from steptrail.projections.telemetry.flow_spans import FlowSpans
from steptrail.projections.telemetry.names import Name, Own
from steptrail.projections.telemetry.open_spans import OpenSpans
from steptrail.projections.telemetry.span import Attribute, Span, TracePer

_LIMITS = frozenset({StopReason.STEPS_LIMIT, StopReason.TOKEN_LIMIT, StopReason.TIME_LIMIT})
"""The reasons for which a run stops that are no error."""

_KINDS: Mapping[str, type[AgentSpans] | type[FlowSpans]] = {AGENTS: AgentSpans, FLOWS: FlowSpans}


class SpanFold:
    """The spans of one stream. It must be given the stream from its first event.

    An event that it was given already is passed over. A stream of another kind than agents and workflows has no spans.
    With `parts=False` there are no spans of steps and of visits of nodes: what is in them stands in the segment.
    `trace_per` says what one trace is made of. Spans hold no content, unless `content` says how it is told.
    """

    def __init__(
        self, stream: str, *, parts: bool = True, trace_per: TracePer = "run", content: SpanContent | None = None
    ) -> None:
        self.version = 0
        """The version of the newest event that it was given."""
        self._spans = OpenSpans(stream, parts=parts, trace_per=trace_per, content=content)
        kind = _KINDS.get(prefix_of(stream))
        self._kind = kind(stream, self._spans) if kind is not None else None

    def begin_at(self, state: AgentState) -> None:
        """Begin with the past of a fork: `state` is that of its first event, and nobody else may use it afterwards.

        Only content needs it, since a model is asked with what was said before the fork.
        """
        if isinstance(self._kind, AgentSpans) and self._kind.told is not None:
            self._kind.told.begin_at(state)

    def apply(self, records: Iterable[Recorded[Event]]) -> tuple[Span, ...]:
        """Return the spans that end with these events."""
        for record in records:
            if record.version > self.version:
                self.version = record.version
                self._apply(record)
        return self._spans.take()

    def _apply(self, record: Recorded[Event]) -> None:
        version, at, event, spans = record.version, record.at, record.event, self._spans
        if self._kind is None:
            return
        # A run that waits may be at rest, and what ends the wait may come from outside: no sign that the owner lives.
        is_alive = event.counts_as is not EventKind.OUTSIDE and not spans.is_waiting
        match event:
            case SessionStarted(parent=parent) if parent is not None:
                spans.below(parent)
            case ExecutionPaused():
                spans.end_segment(at)
                spans.pause_wait(at)
            case WaitStarted(kind=kind):
                spans.begin_wait(kind, version, at)
            case WaitEnded(reason=reason):
                spans.end_wait(at, reason)
            case ExecutionFinished():
                self._finish(event, self._kind, version, at)
            case _:
                pass
        self._kind.apply(event, version, at)
        if is_alive:
            spans.live(at)

    def _finish(self, event: ExecutionFinished, kind: AgentSpans | FlowSpans, version: int, at: int) -> None:
        about: dict[str, Attribute] = {
            **kind.about,
            Own.STATUS: event.status.value,
            Own.STOP_REASON: event.stop_reason.value,
            Own.RESOLVED_BY: event.resolved_by,
        }
        is_error = event.status is ExecutionStatus.FAILED and event.stop_reason not in _LIMITS
        if is_error:
            about[Name.ERROR_TYPE] = event.stop_reason.value
        self._spans.finish(kind.name, version, at, about, is_error=is_error)
