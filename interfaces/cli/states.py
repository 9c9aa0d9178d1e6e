"""The parts of a state that `show` prints in the same way for agents and for workflows."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from steptrail.domain.base import full_form
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import ExecutionFinished
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.state import StreamState
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped
from steptrail.projections.rendering import asked_for, many, since_text
from steptrail.projections.stop_reasons import executions_in

EXECUTION_HEADS = ["EXECUTION", "STATUS", "STOP REASON", "DECIDED BY"]


class ShownExecution(NamedTuple):
    """One execution as `show` lists it; `end` is None for the one that is open."""

    id: str
    status: ExecutionStatus
    end: ExecutionFinished | None

    def cells(self) -> list[str]:
        """Return its row, under `EXECUTION_HEADS`."""
        stopped = ("", "")
        if self.end is not None:
            stopped = (how_it_stopped(self.end.stop_reason, answered=self.end.answered), self.end.resolved_by)
        return [self.id, self.status.value, *stopped]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON, without what only agents have, or only workflows."""
        reason = None if self.end is None else self.end.stop_reason.value
        return {"executionId": self.id, "status": self.status.value, "stopReason": reason}


def executions_of(
    session: str, state: StreamState[Any], records: Sequence[Recorded[Any]], *begins: type[Event]
) -> Iterator[ShownExecution]:
    """Yield the executions of a stream in order, given the classes of events that begin one.

    A fork calls those that it shares by its own id, as `why` does, and their events by that of its source.
    """
    for number, (_, end) in enumerate(executions_in(records, *begins), start=1):
        status, stop = (state.status, None) if end is None else (end.event.status, end.event)
        yield ShownExecution(f"{session}:{number}", status, stop)


def stream_data(state: StreamState[Any]) -> dict[str, JsonValue]:
    """Return as JSON when a stream began and was changed, its metadata, and where it was forked from."""
    return {
        "startedAt": state.started_at.isoformat(),
        "updatedAt": to_datetime(state.fold.updated_at).isoformat(),
        "metadata": dict(state.metadata),
        "forkedFrom": None if state.forked_from is None else full_form(state.forked_from),
    }


def print_head(
    output: Output,
    state: StreamState[Any],
    names: Sequence[tuple[str, str]],
    *,
    status: str,
    seconds: float,
    recorded: Sequence[str] = (),
) -> None:
    """Print whose state it is, how it stands, who asked for that, and what that execution has spent."""
    for what, name in names:
        output.line(f"{what:<8} {one_line(name)}")
    output.line(f"status   {status} at version {state.version}")
    if (source := state.forked_from) is not None:
        output.line(f"forked   from {one_line(source.session)}, after event {source.version} of it")
    output.line(f"started  {clock_time(state.fold.created_at)} UTC")
    output.line(f"updated  {clock_time(state.fold.updated_at)} UTC")
    for error in recorded:
        output.line(f"recorded {error}")
    for what, asked in asked_for(state):
        output.line(f"{what:<8} {one_line(f'{asked.by_whom}, {since_text(asked.at, state.as_of)}')}")
    cost = f"{state.cost}, " if state.cost is not None else ""
    output.line(f"spent    {many(state.usage.total, 'token')}, {cost}{seconds:.2f} s active")


def print_lines(output: Output, title: str, lines: Sequence[str]) -> None:
    """Print a title with lines below it."""
    output.line()
    output.line(one_line(title))
    output.lines(f"  {line}" for line in lines)
