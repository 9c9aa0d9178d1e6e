"""Fold handlers of a run: its beginning and end, its segments, its waits, and what people ask of it."""

from msgspec import structs

from steptrail.domain.errors import RecordTooNew
from steptrail.domain.flow import events as stored
from steptrail.domain.flow.fold import EndedBy, FlowFold, RunFold
from steptrail.domain.flow.graph import graph_of
from steptrail.domain.flow.ids import effect_id, execution_id, flow_stream
from steptrail.domain.flow.joins import Marking
from steptrail.domain.flow.phases import RunPhase, task_phase_after
from steptrail.domain.flow.said import said
from steptrail.domain.flow.task import Task, TaskPhase
from steptrail.domain.flow.views import View
from steptrail.domain.flow.waits import is_for_resources, waits_of
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.persistent import Layers
from steptrail.domain.kernel.standing import Wait, answered
from steptrail.domain.shared import fold as shared
from steptrail.domain.shared.keys import with_retry
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.scores import session_scored
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.tools import ToolEffect

RUN_HANDLERS = Handlers[FlowFold, [int], None]()
RUN_HANDLERS.of(stored.SessionStarted)(shared.session_started)
RUN_HANDLERS.of(stored.MetadataChanged)(shared.metadata_changed)
RUN_HANDLERS.of(stored.PauseRequested)(shared.pause_requested)
RUN_HANDLERS.of(stored.PauseLifted)(shared.pause_lifted)
RUN_HANDLERS.of(stored.SessionScored)(session_scored)


def end_run(run: RunFold, by: EndedBy, at: int) -> None:
    """Note what brings the run to its end. What came first stays."""
    if run.ended_by is None:
        run.ended_by, run.ending_at = by, at


@RUN_HANDLERS.of(stored.FlowStarted)
def _flow_started(fold: FlowFold, event: stored.FlowStarted, at: int) -> None:
    fold.executions, fold.segment, fold.worker, fold.name = event.ordinal, event.segment, event.worker or "", event.flow
    if event.key is not None:
        fold.remember(event.key, said(event), ran=event.flow)
    try:
        graph = graph_of(event.definition)
    except ValueError as error:
        why = f"its workflow cannot be read: {error}: a newer version of Steptrail recorded it"
        raise RecordTooNew(flow_stream(fold.flow_id), fold.version + 1, event.TYPE, why) from error
    before = fold.execution
    view = View(vars=Layers(event.vars), messages=Log(event.messages), artifacts=Log(event.artifacts))
    fold.execution = RunFold(
        id=event.execution_id,
        ordinal=event.ordinal,
        started=event,
        options=event.options,
        key=event.key,
        started_at=at,
        wall_from=at,
        marking=Marking.at_entry(graph),
        views={0: view},
    )
    if before is not None:
        fold.execution.files = before.files
    fold.execution.note_files(event)


@RUN_HANDLERS.of(stored.FlowForked)
def _flow_forked(fold: FlowFold, event: stored.FlowForked, at: int) -> None:
    """Go on from the past of another stream. Visits that were under way are to open anew, as if they never had."""
    shared.forked(fold, event, at, execution_id(fold.flow_id, fold.executions))
    if (run := fold.execution) is None:
        return
    run.active = run.active.stopped(fold.seen_at)
    for visit in reversed(run.open.values()):
        node, before = visit.node, visit.visit - 1
        run.marking = run.marking.undone(run.graph, run.graph.numbers[node], visit.inputs)
        run.counts = run.counts.set(node, run.counts.get(node, 1) - 1)
        run.visits_of = run.visits_of.updated({node: before} if before else {}, () if before else (node,))
        run.tries_of = run.tries_of.set(node, visit.tried_before)
        run.errors = Log([error for error in run.errors if (error.node_id, error.visit) != (node, visit.visit)])
    # The streams below, and whatever was asked or tried, stay with the source.
    run.open, run.tasks, run.left = {}, {}, Layers[str, int]()
    if run.finished is None:
        run.ended_by = None


@RUN_HANDLERS.of(stored.FlowResumed)
def _flow_resumed(fold: FlowFold, event: stored.FlowResumed, at: int) -> None:
    fold.segment, fold.worker = event.segment, event.worker
    if (run := fold.execution) is None:
        return
    if event.key is not None:
        fold.remember(event.key, said(run.started), run.started.flow)
    # A segment that has crashed lived until its last event.
    run.active = run.active.stopped(fold.seen_at if event.ended_by in {SegmentEnd.CRASH, SegmentEnd.TAKE_OVER} else at)
    moved = None if event.moved is None else frozenset(event.moved)
    for task in run.tasks.values():
        task.clock = task.clock.stopped(_counted_until(task, at, fold.seen_at))
        task.in_doubt = task.in_doubt or task.phase is TaskPhase.RUNNING
        if task.phase is not TaskPhase.SUSPENDED or moved is None or task.stream in moved:
            task.phase = task_phase_after(task.phase, event)
        if task.phase is TaskPhase.RETRYING:
            task.clock = task.clock.started(at)
    for visit in run.open.values():
        run.follow_clock(visit, at, fold.seen_at)
    run.options = event.options or run.options
    run.wall_from = at
    run.pause_request = run.paused = run.unpaused = None
    run.waits = tuple(wait for wait in run.waits if wait.answered_at is None)
    run.unproductive_segments = 0 if event.was_productive else run.unproductive_segments + 1
    run.productive = False
    if not is_for_resources(run):
        run.unopened = 0
    if fold.phase is not RunPhase.WAITING:
        run.wait = None  # a run that was paused in a wait is at work, and waits anew if it has to
    elif event.options is not None:
        _set_ends_of_waits(run)


def _counted_until(task: Task, at: int, seen_at: int) -> int:
    """Return until when the time of a task counts that goes on at `at`. Nobody was there after `seen_at`.

    A wait before another try counts up to its end: what comes after it is not the node's.
    """
    if task.retry is not None and task.phase is TaskPhase.RETRYING:
        return min(at, max(seen_at, task.retry.due_at))
    return seen_at if task.phase is TaskPhase.RUNNING else at


def _set_ends_of_waits(run: RunFold) -> None:
    """Have the wait of a run end by its new options, which say how long a held step waits for an answer."""
    if run.wait is None or is_for_resources(run):
        return
    now = {wait.id: wait for wait in waits_of(run)}
    run.waits = tuple(now.get(wait.id, wait) for wait in run.waits)
    ends = [wait.due_at for wait in run.waits if wait.due_at is not None]
    run.wait = structs.replace(run.wait, until=min(ends, default=None))


@RUN_HANDLERS.of(stored.FlowRetried)
def _flow_retried(fold: FlowFold, event: stored.FlowRetried, at: int) -> None:
    fold.executions, fold.segment, fold.worker = event.ordinal, event.segment, event.worker or ""
    fold.keys = with_retry(fold.keys, event.ordinal)
    fold.remember(event.key, "retry")
    if (run := fold.execution) is None:
        return
    run.id, run.ordinal, run.key = event.execution_id, event.ordinal, event.key
    run.options = event.options or run.options
    run.started_at = run.wall_from = at
    run.active, run.counts, run.unproductive_segments, run.productive, run.unopened = Stopwatch(), Layers(), 0, False, 0
    run.ended_by = run.stop_request = run.pause_request = run.paused = run.unpaused = run.wait = None
    run.finished = run.finished_at = None
    run.waits = ()
    for visit in run.open.values():
        run.marking = run.marking.reopening(run.graph.numbers[visit.node])
        visit.clock, visit.may_begin, visit.may_end = Stopwatch(), False, False
        items = [None] if visit.items is None else [i for i in range(visit.next_item) if i not in visit.results]
        for item in items:
            task = Task(visit.node, visit.visit, item, order=run.next_order())
            task.begun_under = visit.effects.get(task.place)
            if item in visit.unknown:
                # Its newest try is asked about, under the id that it had.
                task.phase, task.effect, task.attempt = TaskPhase.PARKED, ToolEffect.UNSAFE, 1
                task.effect_id = effect_id(visit.execution, *task.key)
                task.asked_at, task.asked_at_version = at, fold.version + 1
            run.tasks[task.key] = task


@RUN_HANDLERS.of(stored.StopRequested)
def _stop_requested(fold: FlowFold, event: stored.StopRequested, at: int) -> None:
    shared.stop_requested(fold, event, at)
    if (run := fold.execution) is not None and run.finished is None and run.stop_request is not None:
        end_run(run, run.stop_request, at)


@RUN_HANDLERS.of(stored.ExecutionPaused)
def _execution_paused(fold: FlowFold, event: stored.ExecutionPaused, at: int) -> None:
    if (run := fold.execution) is None:
        return
    run.pause_request, run.paused, run.productive = None, Request(event.by, event.reason, at), True
    run.active = run.active.stopped(at)
    for task in run.tasks.values():
        task.clock = task.clock.stopped(at)
    for visit in run.open.values():
        run.follow_clock(visit, at)


@RUN_HANDLERS.of(stored.LimitReached)
def _limit_reached(fold: FlowFold, event: stored.LimitReached, at: int) -> None:
    if fold.execution is not None and event.scope == "run":
        end_run(fold.execution, event, at)


@RUN_HANDLERS.of(stored.WaitStarted)
def _wait_started(fold: FlowFold, event: stored.WaitStarted, at: int) -> None:
    if fold.execution is not None:
        fold.execution.wait, fold.execution.waiting_since, fold.execution.productive = event, at, True
        fold.execution.waits = waits_of(fold.execution)
        fold.execution.unopened += event.kind == "resources"


@RUN_HANDLERS.of(stored.WaitEnded)
def _wait_ended(fold: FlowFold, event: stored.WaitEnded, at: int) -> None:
    if fold.execution is not None:
        fold.execution.wait = None
        # What a person has ended waits for a process that goes on with it.
        fold.execution.waits = _with_answers(fold.execution, at) if event.is_verdict else ()


def _with_answers(run: RunFold, at: int) -> tuple[Wait, ...]:
    open_now = {wait.id for wait in waits_of(run)}
    return tuple(wait if wait.id in open_now else answered((wait,), at)[0] for wait in run.waits)


@RUN_HANDLERS.of(stored.ExecutionFinished)
def _execution_finished(fold: FlowFold, event: stored.ExecutionFinished, at: int) -> None:
    if (run := fold.execution) is None:
        return
    run.active = run.active.stopped(at)
    run.finished, run.finished_at, run.wait, run.waits = event, at, None, ()
    run.tasks = {}
    # `version` still counts the events before this one.
    fold.ended_at_version = fold.ended_at_version.appended(fold.version + 1)
