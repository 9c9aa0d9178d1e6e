"""`FlowState`: a stream of a workflow as of one instant, immutable and cheap to hand out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.envelope import Envelope, NodeError
from steptrail.domain.flow.events import StepAnswered
from steptrail.domain.flow.files import Known, files_named, refuse_unknown
from steptrail.domain.flow.fold import FlowFold, RunFold, VisitFold
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.seeing import seen_in
from steptrail.domain.flow.task import Task
from steptrail.domain.flow.views import View, joined
from steptrail.domain.instants import seconds_between
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.state import StreamState


class FlowState(StreamState[FlowFold]):
    """A stream of a workflow as of one instant: its open execution, or the last one.

    `as_of` is that instant, in microseconds of UTC; clocks such as `active_seconds` are read at it.
    """

    __slots__ = ()

    def at(self, now: int) -> "FlowState":
        """Return the same state as of the instant `now`."""
        return FlowState(self._fold, as_of=now)

    def __repr__(self) -> str:
        return f"FlowState({self.flow_id!r}, version={self.version}, status={self.status.value})"

    @property
    def flow_id(self) -> str:
        """The id of the stream, without its prefix."""
        return self._fold.flow_id

    @property
    def stream_id(self) -> str:
        """The id of the stream, by which errors name the run."""
        return flow_stream(self.flow_id)

    @property
    def phase(self) -> RunPhase:
        """The phase of the stream."""
        return self._fold.phase

    @property
    def run(self) -> RunFold | None:
        """The accumulator of the open execution, or of the last one; None before the first."""
        return self._fold.execution

    def at_work(self) -> RunFold:
        """Return the accumulator of the execution. Raises `ValueError` before the first one."""
        if self.run is None:
            raise ValueError(f"no execution of {self.flow_id} has begun")
        return self.run

    @property
    def files(self) -> Known:
        """The files that came with the events of the stream, by digest."""
        return self.run.files if self.run is not None else {}

    def refuse_unknown_files(self, came: Iterable[FilePart], **values: JsonValue) -> None:
        """Raise `ConfigurationError` for a file in any of the values that neither `came` nor is known here."""
        known = {**self.files, **{part.digest: part for part in came}}
        for name, value in values.items():
            refuse_unknown(value, known, name)

    @property
    def definition(self) -> FlowDefinition | None:
        """The workflow as it was recorded; None before the first execution."""
        return self.run.graph.definition if self.run is not None else None

    @property
    def tasks(self) -> Sequence[Task]:
        """The open work: visits of nodes, and items of maps."""
        return tuple(self.run.tasks.values()) if self.run is not None else ()

    @property
    def open_visits(self) -> Sequence[VisitFold]:
        """The visits that have not ended well."""
        return tuple(self.run.open.values()) if self.run is not None else ()

    @property
    def stopped_by(self) -> Request | None:
        """The request to end the run: that a held step be aborted, or that the run be stopped; None for neither."""
        run = self.run
        if run is not None and isinstance(run.ended_by, StepAnswered):
            return Request(run.ended_by.by, run.ended_by.reason, run.ending_at)
        return self.stop_request

    @property
    def errors(self) -> Sequence[NodeError]:
        """The failures after which the run went on, in the order in which they were recorded."""
        return self.run.errors if self.run is not None else ()

    @property
    def active_seconds(self) -> float:
        """The time of that execution in which any node ran."""
        return self.run.active.us(self.as_of) / 1e6 if self.run is not None else 0.0

    @property
    def elapsed_seconds(self) -> float:
        """The wall time since that execution began, was resumed or retried."""
        return seconds_between(self.run.wall_from, self.as_of) if self.run is not None else 0.0

    @property
    def envelope(self) -> Envelope:
        """The outcome of all branches together: variables, messages, artifacts, and every recorded failure."""
        if (run := self.run) is None:
            return Envelope()
        return replace(seen_in(run, self._last_view(run)), errors=tuple(run.errors)).envelope()

    def _last_view(self, run: RunFold) -> View:
        """Join what is seen after ended and late branches, at tokens and in open visits, in the order of nodes."""
        graph = run.graph
        places = [(graph.numbers[node], number) for number, node in (*run.ends.items(), *run.late.items())]
        places += [(graph.numbers[visit.node], number) for visit in run.open.values() for _, number in visit.inputs]
        places += [(target, number) for target, tokens in run.marking.tokens.items() for _, number in tokens]
        numbers = tuple(dict.fromkeys(number for _, number in sorted(places)))
        return joined(numbers, run.views, run.ended) if numbers else View()

    @property
    def output(self) -> JsonValue:
        """The result of the run: the variable that the workflow names, or the output of the last node of a branch."""
        if (run := self.run) is None:
            return None
        graph = run.graph
        if graph.definition.result is not None:
            return cast("JsonValue", self.envelope.get(graph.definition.result.removeprefix("vars.")))
        last = max(((graph.numbers[node], number) for number, node in run.ends.items()), default=None)
        if last is None:
            return None
        key = graph.nodes[last[0]].output
        return run.views[last[1]].vars.get(key) if key is not None else None

    @property
    def output_files(self) -> tuple[FilePart, ...]:
        """The files for which the output, or parts of it, stand."""
        return tuple(dict.fromkeys(files_named(self.output, self.files)))
