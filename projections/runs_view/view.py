"""The read model of runs as a projection: a small memory of each stream, and handlers that write rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import STREAM_PREFIX as AGENTS
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.kernel.event import EventKind
from steptrail.domain.kernel.handlers import Handlers, complete
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.shared.events import SessionScored
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Table
from steptrail.projections.runs_view.agent_runs import AGENT_RUN_HANDLERS, AGENT_STREAM_HANDLERS
from steptrail.projections.runs_view.calls import CALL_HANDLERS
from steptrail.projections.runs_view.decisions import DECISION_HANDLERS
from steptrail.projections.runs_view.executions import RUN_HANDLERS, STREAM_HANDLERS, execution_row
from steptrail.projections.runs_view.flow_runs import FLOW_RUN_HANDLERS, FLOW_STREAM_HANDLERS
from steptrail.projections.runs_view.memory import RunMemory, RunMoment, StreamMemory
from steptrail.projections.runs_view.steps import STEP_HANDLERS
from steptrail.projections.runs_view.sums import OF_ALL_TENANTS, SUMS
from steptrail.projections.runs_view.tables import EXECUTIONS, ROWS, VERSION
from steptrail.projections.runs_view.visits import VISIT_HANDLERS

_OfStream = Handlers[StreamMemory, [RunMoment], None]


def _of_run(handlers: Handlers[RunMemory, [RunMoment], None]) -> _OfStream:
    """Return them as handlers of a stream, which change nothing as long as no run has begun."""

    def in_run(handler: Callable[[RunMemory, Any, RunMoment], None], memory: StreamMemory, *told: Any) -> None:
        if memory.run is not None:
            handler(memory.run, *told)

    of_stream = _OfStream()
    of_stream.by_class = {kind: partial(in_run, handler) for kind, handler in handlers.by_class.items()}
    return of_stream


_Table = Mapping[type[Any], Callable[[StreamMemory, Any, RunMoment], None]]

_HANDLERS: Mapping[str, _Table] = {
    AGENTS: complete(
        AgentEvent,
        *(STREAM_HANDLERS, AGENT_STREAM_HANDLERS),
        *map(_of_run, (RUN_HANDLERS, AGENT_RUN_HANDLERS, STEP_HANDLERS, CALL_HANDLERS, DECISION_HANDLERS)),
    ),
    FLOWS: complete(
        FlowEvent,
        *(STREAM_HANDLERS, FLOW_STREAM_HANDLERS),
        *map(_of_run, (RUN_HANDLERS, FLOW_RUN_HANDLERS, VISIT_HANDLERS)),
    ),
}
"""The beginning of the id of a stream -> the handlers of its events."""
_OF_KIND = {prefix.removesuffix(":"): handlers for prefix, handlers in _HANDLERS.items()}


class RunsView(Projection[StreamMemory]):
    """Makes the tables of runs of the log of all agents and workflows."""

    name = "runs"
    version = VERSION
    prefixes: Sequence[str] = tuple(_HANDLERS)
    heads = False
    tables: Sequence[Table] = (*ROWS, *SUMS, *OF_ALL_TENANTS.values())

    def begin(self, stream: str) -> StreamMemory:
        """Return the memory of a stream before its first event."""
        return StreamMemory(stream, stream.partition(":")[0])

    def apply(self, fold: StreamMemory, entry: LogEntry, changes: Changes) -> StreamMemory:
        """Write what an event changes, and return the memory after it, which is the same object."""
        position, _, record = entry
        version, at, event = record.version, record.at, record.event
        handler = _OF_KIND[fold.kind].get(type(event))
        if handler is not None:
            handler(fold, event, RunMoment(position, version, at, changes))
        if (run := fold.run) is not None:
            if event.counts_as is not EventKind.OUTSIDE:
                run.seen = version, at
            if run.finished is None and type(event) is not SessionScored:
                run.version, run.at = version, at
        return fold

    def end_batch(self, fold: StreamMemory, changes: Changes) -> None:
        """Write the row of the open execution, as of its newest event."""
        if (run := fold.run) is not None and run.finished is None:
            changes.put(EXECUTIONS, execution_row(run))
