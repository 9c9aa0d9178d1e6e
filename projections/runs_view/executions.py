"""Handlers of what agents and workflows share: a run rests and ends, people are asked, metadata changes.

The functions about rests serve the handlers of both. The row of an execution follows from the memory, so no handler
writes it but the one that ends the run: the projection puts it after each event.
"""

from collections.abc import Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import CALLER
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared import events as stored
from steptrail.domain.shared.forks import Forked
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.domain.shared.tags import TOLD_IN_METADATA, tags_in, tenant_in
from steptrail.domain.storable import plain
from steptrail.projections.kernel.table import Row
from steptrail.projections.runs_view.daily import count_run
from steptrail.projections.runs_view.memory import RestMemory, RunMemory, RunMoment, StreamMemory
from steptrail.projections.runs_view.signature import NO_ERROR, ErrorKind
from steptrail.projections.runs_view.tables import EXECUTIONS, RESTS, SCORES, TAGS
from steptrail.projections.runs_view.values import nanos, tokens, whole

STREAM_HANDLERS = Handlers[StreamMemory, [RunMoment], None]()
RUN_HANDLERS = Handlers[RunMemory, [RunMoment], None]()

_FOR_PEOPLE = frozenset({"approval", "external", "unknown_outcome", "human", "step"})
_LASTS: Row = {"ended_at": None, "ending": None, "ended_by": None, "end_version": None}


def run_at(memory: StreamMemory, ordinal: int, worker: str | None, moment: RunMoment) -> RunMemory:
    """Return an execution that begins here; without a worker, it waits for one."""
    return RunMemory(
        stream=memory.stream,
        kind=memory.kind,
        parent=memory.parent,
        execution=moment.position,
        ordinal=ordinal,
        name=memory.name,
        tenant=tenant_in(memory.metadata) or "",
        started_at=moment.at,
        first_version=moment.version,
        version=moment.version,
        at=moment.at,
        worker=None if worker is None else plain(worker),
        standing=ExecutionStatus.PENDING if worker is None else None,
        segments=int(worker is not None),
    )


def begin_run(memory: StreamMemory, run: RunMemory, moment: RunMoment) -> None:
    """Begin an execution with its tags. One before it that is open, which no sound log has, gets its last row."""
    if (before := memory.run) is not None and before.finished is None:
        moment.changes.put(EXECUTIONS, execution_row(before))
    memory.run = run
    memory.places[run.ordinal] = run.execution
    _put_tags(run, tags_in(memory.metadata), moment)


def begin_fork(memory: StreamMemory, event: Forked, moment: RunMoment) -> RunMemory | None:
    """Begin with the execution that a fork goes on with, if it is open, and return it: here it begins with the fork."""
    memory.name, memory.parent = plain(event.name), None
    change_metadata(memory, event.metadata)
    if event.status is not ExecutionStatus.PAUSED:
        return None
    run = run_at(memory, event.executions, None, moment)
    run.standing = ExecutionStatus.PAUSED
    begin_run(memory, run, moment)
    begin_rest(run, RestMemory(moment.version, "pause", True, moment.at, by=event.by), moment)
    return run


def resume_run(run: RunMemory, moment: RunMoment, *, worker: str, by: str, ended_by: SegmentEnd) -> None:
    """Begin a segment. The time since the last one was a rest, of whichever kind."""
    if run.rest is None:
        kind = "crash" if ended_by in {SegmentEnd.CRASH, SegmentEnd.TAKE_OVER} else "worker"
        version, at = run.seen
        run.rest = RestMemory(version, kind, is_for_people=False, started_at=at)
        end_rest(run, moment, "resumed", by)
    elif run.rest.kind == "pause":
        end_rest(run, moment, "resumed", by)
        if run.wait is not None:
            rest_in_wait(run, run.wait, moment)
    run.standing, run.worker = None, plain(worker)
    run.segments += 1


def execution_row(run: RunMemory) -> Row:
    """Return the row of an execution as of its newest event."""
    parent, finished, prices, at = run.parent, run.finished, run.prices, run.at
    failure, cost, tree = _failure_of(run), run.own.cost(prices), run.own + run.below
    return {
        "execution": run.execution,
        "stream": run.stream,
        "kind": run.kind,
        "ordinal": run.ordinal,
        "name": run.name,
        "model": run.model,
        "fingerprint": run.fingerprint,
        "worker": run.worker,
        "tenant": run.tenant,
        "parent": None if parent is None else plain(parent.stream),
        "parent_effect": None if parent is None else plain(parent.effect),
        "root": None if parent is None else plain(parent.root_stream),
        "status": run.status.value,
        "stop_reason": None if finished is None else finished.stop_reason.value,
        "resolved_by": None if finished is None else plain(finished.resolved_by),
        "answered": finished is not None and finished.answered,
        "waits_for": None if run.wait is None else run.wait.kind,
        **(NO_ERROR if failure is None else failure.columns()),
        "segments": run.segments,
        "steps": run.steps,
        "tool_calls": run.tool_calls,
        "errors": run.errors,
        "retries": run.retries,
        "approvals": run.approvals,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "active_us": whole(run.active.us(at)),
        "wall_us": max(0, (at if run.ended_at is None else run.ended_at) - run.started_at),
        "idle_us": run.idle_us,
        "people_us": run.people_us,
        **tokens(run.own.usage),
        "wasted_tokens": whole(run.wasted.usage.total),
        "cost_nanos": None if cost is None else nanos(cost),
        "wasted_nanos": run.wasted.nanos(prices),
        "is_unpriced": cost is not None and not cost.is_complete,
        "tree_tokens": whole(tree.usage.total),
        "tree_cost_nanos": tree.nanos(prices),
        "first_version": run.first_version,
        "version": run.version,
    }


def _failure_of(run: RunMemory) -> ErrorKind | None:
    """Return the error because of which the execution failed; None for any other end."""
    if run.finished is None or run.finished.status is not ExecutionStatus.FAILED:
        return None
    raised = run.raised
    return raised if raised is not None and raised.tool == plain(run.finished.resolved_by) else run.failure


def end_run(run: RunMemory, event: stored.ExecutionFinished, moment: RunMoment) -> None:
    """End an execution, with its last row, and count it."""
    end_rest(run, moment, "finished")
    run.active = run.active.stopped(moment.at)
    run.standing, run.wait, run.finished, run.ended_at = None, None, event, moment.at
    run.version, run.at = moment.version, moment.at
    row = execution_row(run)
    moment.changes.put(EXECUTIONS, row)
    count_run(row, moment)


def begin_rest(run: RunMemory, rest: RestMemory, moment: RunMoment) -> None:
    """Begin a rest, with its row."""
    end_rest(run, moment, "paused")
    run.rest = rest
    _put_rest(run, rest, moment)


def rest_in_wait(run: RunMemory, wait: stored.WaitStarted, moment: RunMoment) -> None:
    """Begin the rest of a wait: when it starts, and when the pause is over that came in between."""
    for_people = wait.kind in _FOR_PEOPLE
    begin_rest(run, RestMemory(moment.version, wait.kind, for_people, moment.at, until=wait.until), moment)


def end_wait(run: RunMemory, event: stored.WaitEnded, moment: RunMoment) -> None:
    """End a wait. A pause in which it ends, such as by the answer of a person, goes on."""
    run.wait = None
    if run.rest is not None and run.rest.kind != "pause":
        end_rest(run, moment, event.reason, event.by)


def end_rest(run: RunMemory, moment: RunMoment, ending: str, by: str | None = None) -> None:
    """End the rest that lasts, if one does, and count its time."""
    if (rest := run.rest) is None:
        return
    run.rest = None
    lasted = max(0, moment.at - rest.started_at)
    run.idle_us += lasted
    run.people_us += lasted if rest.is_for_people else 0
    ended: Row = {"ended_at": moment.at, "ending": ending, "ended_by": _name(by), "end_version": moment.version}
    _put_rest(run, rest, moment, ended)


def _put_rest(run: RunMemory, rest: RestMemory, moment: RunMoment, ended: Row = _LASTS) -> None:
    row: Row = {
        "execution": run.execution,
        "version": rest.version,
        "kind": rest.kind,
        "is_for_people": rest.is_for_people,
        "started_at": rest.started_at,
        "until": None if rest.until is None else whole(max(0, rest.until)),
        "by": _name(rest.by),
        **ended,
    }
    moment.changes.put(RESTS, row)


def _name(by: str | None) -> str | None:
    return None if by is None else plain(by)


def _put_tags(run: RunMemory, tags: Mapping[str, str], moment: RunMoment) -> None:
    """Make these the tags of the execution."""
    for name, value in run.tags.items():
        if tags.get(name) != value:
            moment.changes.drop(TAGS, (name, value, run.execution))
    for name, value in tags.items():
        moment.changes.put(TAGS, {"name": name, "value": value, "execution": run.execution})
    run.tags = tags


@STREAM_HANDLERS.of(stored.SessionStarted)
def _session_started(memory: StreamMemory, event: stored.SessionStarted, moment: RunMoment) -> None:
    memory.name, memory.parent = plain(event.name), event.parent
    change_metadata(memory, event.metadata)


def change_metadata(memory: StreamMemory, changes: Mapping[str, JsonValue]) -> None:
    """Keep those entries that say of tags and tenant."""
    memory.metadata.update({name: changes[name] for name in TOLD_IN_METADATA if name in changes})


@STREAM_HANDLERS.of(stored.MetadataChanged)
def _metadata_changed(memory: StreamMemory, event: stored.MetadataChanged, moment: RunMoment) -> None:
    for name in event.removed:
        memory.metadata.pop(name, None)
    change_metadata(memory, event.changes)
    if (run := memory.run) is not None and run.finished is None:
        _put_tags(run, tags_in(memory.metadata), moment)


@STREAM_HANDLERS.of(stored.SessionScored)
def _scored(memory: StreamMemory, event: stored.SessionScored, moment: RunMoment) -> None:
    """Put the score in the place of the one before. No sound log has one of an execution that has no row."""
    if (execution := memory.places.get(event.execution)) is None:
        return
    value, is_label = event.value, isinstance(event.value, str)
    row: Row = {
        "execution": execution,
        "step": event.step or 0,
        "name": plain(event.name),
        "by": plain(event.by),
        "kind": "label" if is_label else "truth" if isinstance(value, bool) else "number",
        "value_millionths": None if isinstance(value, str) else round(value * 1_000_000),
        "label": plain(value) if isinstance(value, str) else None,
        "scored_at": moment.at,
        "version": moment.version,
    }
    moment.changes.put(SCORES, row)


@RUN_HANDLERS.of(stored.PauseRequested, stored.StopRequested)
def _nothing(run: RunMemory, event: Event, moment: RunMoment) -> None:
    """Change nothing: a later event leads to a change."""


@RUN_HANDLERS.of(stored.ExecutionPaused)
def _paused(run: RunMemory, event: stored.ExecutionPaused, moment: RunMoment) -> None:
    run.standing = ExecutionStatus.PAUSED
    run.active = run.active.stopped(moment.at)
    is_for_people = event.by != CALLER
    begin_rest(run, RestMemory(moment.version, "pause", is_for_people, moment.at, by=event.by), moment)


@RUN_HANDLERS.of(stored.PauseLifted)
def _pause_lifted(run: RunMemory, event: stored.PauseLifted, moment: RunMoment) -> None:
    """End the rest that is for a person: from now on it is for a worker."""
    if run.standing is not ExecutionStatus.PAUSED:
        return  # only the request for a pause was withdrawn
    run.standing = ExecutionStatus.PENDING
    begin_rest(run, RestMemory(moment.version, "pause", False, moment.at, by=event.by), moment)


@RUN_HANDLERS.of(stored.WaitStarted)
def _wait_started(run: RunMemory, event: stored.WaitStarted, moment: RunMoment) -> None:
    run.wait = event
    rest_in_wait(run, event, moment)
