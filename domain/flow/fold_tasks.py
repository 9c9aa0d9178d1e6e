"""Fold handlers of what is open: the tries of nodes, and the questions about them."""

from msgspec import structs

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.failing import stream_kind
from steptrail.domain.flow.fold import FlowFold, RunFold, VisitFold
from steptrail.domain.flow.fold_run import end_run
from steptrail.domain.flow.keeping import keep
from steptrail.domain.flow.nodes import MapNode
from steptrail.domain.flow.phases import task_phase_after
from steptrail.domain.flow.said import said_to
from steptrail.domain.flow.seeing import given_below, items_seen
from steptrail.domain.flow.task import THE_VISIT, Task, TaskPhase
from steptrail.domain.flow.views import Delta, together
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage

TASK_HANDLERS = Handlers[FlowFold, [int], None]()

_ONCE = frozenset({ToolEffect.UNSAFE, ToolEffect.KEYED})

_Tried = (
    stored.NodeAttemptStarted
    | stored.NodeAttemptCompleted
    | stored.NodeAttemptFailed
    | stored.NodeAttemptInterrupted
    | stored.NodeAttemptSuspended
    | stored.NodeRetryScheduled
)


def _tried(fold: FlowFold, event: _Tried) -> tuple[RunFold, VisitFold, Task] | None:
    """Bill and move the task that an event is about, and return it with run and visit; None when that is over.

    An item of a map becomes a task.
    """
    run = fold.execution
    task = None if run is None else _task(run, event.node, event.visit, event.item)
    visit = None if run is None else run.open.get(event.node)
    if run is None or visit is None or task is None:
        return None
    if not isinstance(event, stored.NodeAttemptStarted | stored.NodeRetryScheduled) and event.usage is not None:
        _bill(run, visit, task, event.usage)
    _move(run, task, event)
    return run, visit, task


def _task(run: RunFold, node: str, visit: int, item: int | None) -> Task | None:
    found, place = run.tasks.get((node, visit, item)), run.open.get(node)
    if found is not None or item is None or place is None or place.visit != visit:
        return found
    task = run.tasks[node, visit, item] = Task(node, visit, item, order=run.next_order())
    place.next_item = max(place.next_item, item + 1)
    return task


def _bill(run: RunFold, visit: VisitFold, task: Task, bill: BilledUsage) -> None:
    fresh = visit.uncounted(bill, task.place)
    run.charge(fresh)
    if fresh.total or fresh.models:
        visit.spent = visit.spent.updated({at: fresh.after(visit.spent.get(at)) for at in (THE_VISIT, task.place)})
    if task.runs_a_stream:
        visit.bills = visit.bills.set(task.place, bill)


def _move(run: RunFold, task: Task, event: _Tried | stored.NodeEvaluated) -> None:
    was_running = task.phase is TaskPhase.RUNNING
    task.phase = task_phase_after(task.phase, event)
    if task.phase in {TaskPhase.LANDED, TaskPhase.DUE}:
        task.order = run.next_order()
    if was_running:
        task.in_doubt = False


def _rested(run: RunFold, at: int) -> None:
    if not any(task.phase is TaskPhase.RUNNING for task in reversed(run.tasks.values())):
        run.active = run.active.stopped(at)


@TASK_HANDLERS.of(stored.NodeAttemptStarted)
def _started(fold: FlowFold, event: stored.NodeAttemptStarted, at: int) -> None:
    if (found := _tried(fold, event)) is None:
        return
    run, visit, task = found
    task.attempt, task.effect, task.effect_id = event.attempt, event.effect, event.effect_id
    task.landing = task.retry = None
    # A key of a `keyed` try, and a stream below, are found again by the effect id, which is another one in a fork.
    if event.effect in _ONCE or event.stream_effect is not None:
        run.note_acted(visit, task.place, True)
    task.clock = task.clock.started(at)
    run.follow_clock(visit, at)
    run.attempts += 1
    _begin_stream(run, visit, task, event.stream_effect)
    run.active = run.active.started(at)


def _begin_stream(run: RunFold, visit: VisitFold, task: Task, effect: str | None) -> None:
    """Note the stream that a try runs, if its node runs one."""
    kind = stream_kind(run.node(task.node, task.item))
    if kind is not None and effect is not None:
        task.runs_a_stream, task.stream = True, f"{kind}:{session_for_call(effect)}"
        if visit.effects.get(task.place) != effect:
            visit.streams = visit.streams.appended(task.stream)
            visit.effects = visit.effects.set(task.place, effect)
            visit.bills = visit.bills.set(task.place, BilledUsage())
            visit.edited = visit.edited - {task.place} if task.arguments is None else visit.edited | {task.place}


@TASK_HANDLERS.of(stored.NodeAttemptCompleted)
def _completed(fold: FlowFold, event: stored.NodeAttemptCompleted, at: int) -> None:
    if (ended := _ended(fold, event, at)) is not None:
        run, visit, task = ended
        run.note_files(event)
        task.clock = task.clock.stopped(at)
        if event.item is not None:
            visit.results = visit.results.set(event.item, event.output)
            visit.spent = visit.spent.updated({}, (event.item,))
            keep(run, visit, task, at)
            del run.tasks[task.key]
        run.follow_clock(visit, at)


@TASK_HANDLERS.of(stored.NodeAttemptFailed)
def _failed(fold: FlowFold, event: stored.NodeAttemptFailed, at: int) -> None:
    if (ended := _ended(fold, event, at)) is not None:
        run, visit, task = ended
        if task.effect is ToolEffect.UNSAFE:
            run.note_acted(visit, task.place, False)
        task.failures += event.attempt > 0


def _ended(
    fold: FlowFold, event: stored.NodeAttemptCompleted | stored.NodeAttemptFailed, at: int
) -> tuple[RunFold, VisitFold, Task] | None:
    if (found := _tried(fold, event)) is None:
        return None
    run, visit, task = found
    task.landing, run.productive = event, True
    run.tries_of = run.tries_of.set(event.node, run.tries_of.get(event.node, 0) + 1)
    visit.unknown -= {task.item}
    _rested(run, at)
    return found


@TASK_HANDLERS.of(stored.NodeAttemptInterrupted)
def _interrupted(fold: FlowFold, event: stored.NodeAttemptInterrupted, at: int) -> None:
    if (found := _tried(fold, event)) is None:
        return
    run, visit, task = found
    task.landing = event if task.phase is TaskPhase.LANDED else None
    # A pause, and the word of a person, is no try.
    task.interruptions += event.settled_by is None and event.reason is not stored.CutReason.CANCELLED
    # Who wants it to run again gives it its time anew.
    task.clock = task.clock.stopped(at) if event.settled_by is None else Stopwatch()
    run.follow_clock(visit, at)
    if task.effect is ToolEffect.UNSAFE:
        # It runs again only by the word of a person, who knows what became of this try.
        is_known = event.then is stored.NodeThen.RERUN
        visit.unknown = visit.unknown - {task.item} if is_known else visit.unknown | {task.item}
        run.note_acted(visit, task.place, not is_known)
    if task.phase is TaskPhase.PARKED:
        task.asked_at, task.asked_at_version = at, fold.version + 1
    _rested(run, at)


@TASK_HANDLERS.of(stored.NodeAttemptSuspended)
def _suspended(fold: FlowFold, event: stored.NodeAttemptSuspended, at: int) -> None:
    if (found := _tried(fold, event)) is None:
        return
    run, visit, task = found
    task.stream, task.until = event.stream, event.until
    task.clock = task.clock.stopped(at)
    run.follow_clock(visit, at)
    task.asked_at, task.asked_at_version = at, fold.version + 1
    run.productive = True
    _rested(run, at)


@TASK_HANDLERS.of(stored.NodeRetryScheduled)
def _retry_scheduled(fold: FlowFold, event: stored.NodeRetryScheduled, at: int) -> None:
    if (found := _tried(fold, event)) is None:
        return
    run, visit, task = found
    task.retry = event
    task.clock = task.clock.started(at)
    run.follow_clock(visit, at)
    task.asked_at, task.asked_at_version = at, fold.version + 1


@TASK_HANDLERS.of(stored.NodeAttemptSettledLate)
def _settled_late(fold: FlowFold, event: stored.NodeAttemptSettledLate, at: int) -> None:
    if fold.execution is not None and event.usage is not None:
        fold.execution.charge(event.usage)


@TASK_HANDLERS.of(stored.NodeEvaluated)
def _evaluated(fold: FlowFold, event: stored.NodeEvaluated, at: int) -> None:
    task = fold.execution.tasks.get((event.node, event.visit, None)) if fold.execution is not None else None
    if fold.execution is not None and task is not None:
        _move(fold.execution, task, event)
        task.landing = event
        fold.execution.productive = True


def _ask(fold: FlowFold, task: Task, at: int, event: stored.FlowEvent) -> None:
    task.phase = task_phase_after(task.phase, event)
    task.clock = task.clock.stopped(at)
    task.asked_at, task.asked_at_version = at, fold.version + 1


@TASK_HANDLERS.of(stored.ApprovalRequested)
def _approval_requested(fold: FlowFold, event: stored.ApprovalRequested, at: int) -> None:
    if fold.execution is None or event.node is None or event.visit is None:
        return
    task = _task(fold.execution, event.node, event.visit, event.item)
    if task is None:
        return
    _ask(fold, task, at, event)
    task.approval = Approval.of(event, at, task.asked_at_version)


@TASK_HANDLERS.of(stored.HumanRequested)
def _human_requested(fold: FlowFold, event: stored.HumanRequested, at: int) -> None:
    task = fold.execution.tasks.get((event.node, event.visit, None)) if fold.execution is not None else None
    if task is not None:
        _ask(fold, task, at, event)
        task.request = event


@TASK_HANDLERS.of(stored.StepHeld)
def _step_held(fold: FlowFold, event: stored.StepHeld, at: int) -> None:
    if (run := fold.execution) is None:
        return
    key, visit = (event.node, event.visit, None), run.open.get(event.node)
    if visit is not None and visit.visit == event.visit and visit.items is not None:
        # A map has tasks for its items alone, until somebody is asked about it itself.
        run.tasks[key] = Task(*key, order=run.next_order())
    if (task := run.tasks.get(key)) is not None:
        _ask(fold, task, at, event)
        task.held, task.asked_at = event.point, at + event.behind


@TASK_HANDLERS.of(stored.ApprovalGranted)
def _approval_granted(fold: FlowFold, event: stored.ApprovalGranted, at: int) -> None:
    fold.remember(event.key, f"approve {event.approval_id}")
    if (asked := _asked(fold, event.approval_id)) is not None:
        run, task, approval = asked
        task.approval = approval.with_yes(event)
        task.arguments = event.arguments
        visit = run.open.get(task.node)
        if event.arguments is not None or (visit is not None and task.place in visit.edited):
            task.begun_under = None  # a stream that was begun with others is not gone on with
        _answer(run, task, event)


@TASK_HANDLERS.of(stored.ApprovalDenied)
def _approval_denied(fold: FlowFold, event: stored.ApprovalDenied, at: int) -> None:
    fold.remember(event.key, f"deny {event.approval_id}")
    if (asked := _asked(fold, event.approval_id)) is not None:
        run, task, approval = asked
        task.approval = structs.replace(approval, answer="denied", by=event.by)
        task.landing = event
        _answer(run, task, event)


@TASK_HANDLERS.of(stored.ApprovalExpired)
def _approval_expired(fold: FlowFold, event: stored.ApprovalExpired, at: int) -> None:
    if (asked := _asked(fold, event.approval_id)) is not None:
        run, task, approval = asked
        task.approval = structs.replace(approval, answer="expired")
        task.landing = event
        _answer(run, task, event)


def _asked(fold: FlowFold, approval_id: str) -> tuple[RunFold, Task, Approval] | None:
    run = fold.execution
    for task in run.tasks.values() if run is not None else ():
        approval = task.approval
        if run is not None and approval is not None and approval.id == approval_id and approval.is_open:
            return run, task, approval
    return None


def _answer(run: RunFold, task: Task, event: stored.FlowEvent) -> None:
    task.phase = task_phase_after(task.phase, event)
    task.order = run.next_order()
    run.productive = True


@TASK_HANDLERS.of(stored.HumanAnswered)
def _human_answered(fold: FlowFold, event: stored.HumanAnswered, at: int) -> None:
    fold.remember(event.key, said_to(event.request_id, event))
    _hear(fold, event, at)


@TASK_HANDLERS.of(stored.HumanExpired)
def _human_expired(fold: FlowFold, event: stored.HumanExpired, at: int) -> None:
    _hear(fold, event, at)


def _hear(fold: FlowFold, event: stored.HumanAnswered | stored.HumanExpired, at: int) -> None:
    run = fold.execution
    for task in run.tasks.values() if run is not None else ():
        is_open = task.phase is TaskPhase.ASKED and task.held is None
        if run is not None and is_open and task.request is not None and task.request.request_id == event.request_id:
            task.landing, task.answered_at = event, at
            run.note_files(event)
            _answer(run, task, event)


@TASK_HANDLERS.of(stored.StepAnswered)
def _step_answered(fold: FlowFold, event: stored.StepAnswered, at: int) -> None:
    fold.remember(event.key, f"step {event.node} {event.action}")
    run = fold.execution
    task = run.tasks.get((event.node, event.visit, None)) if run is not None else None
    visit = run.open.get(event.node) if run is not None else None
    if run is None or task is None or visit is None or task.held is None:
        return
    visit.may_begin = visit.may_begin or task.held == "before"
    visit.may_end = visit.may_end or task.held == "after"
    task.held = None
    run.note_files(event)
    if event.point == "before":
        _change(run, visit, event)
    _answer(run, task, event)
    if event.action == "abort":
        end_run(run, event, at)
    elif event.action == "skip":
        task.skipped = event
    else:
        _go_on_with_map(run, visit, task, event)


def _change(run: RunFold, visit: VisitFold, event: stored.StepAnswered) -> None:
    """Let a visit see what a person has changed. A stream that was begun with something else is not gone on with."""
    goes_on = event.action == "continue"
    below = [task for task in run.tasks.values() if goes_on and task.node == visit.node and task.begun_under]
    before = [given_below(run, visit, task.item) for task in below]
    changes = Delta(sets=event.sets, unsets=event.unsets)
    visit.view, visit.changed = visit.view.with_changes(changes), together((visit.changed, changes))
    for task, given in zip(below, before, strict=True):
        if given_below(run, visit, task.item) != given:
            task.begun_under = None


def _go_on_with_map(run: RunFold, visit: VisitFold, task: Task, event: stored.StepAnswered) -> None:
    """Let a map that was held go on with its items, which are those of the list that it sees now."""
    node = run.node(visit.node)
    if event.point == "before" and isinstance(node, MapNode) and not visit.next_item:
        visit.items = items_seen(run, node, visit.view)
    if visit.items is not None:
        del run.tasks[task.key]
