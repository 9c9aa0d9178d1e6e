"""Handlers of the visits of the nodes of workflows, and of their tries."""

from collections.abc import Iterable

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow import events as stored
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events.about import TaskEvent, VisitEvent
from steptrail.domain.flow.failing import stream_kind, working_node
from steptrail.domain.flow.graph import graph_of
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.storable import plain
from steptrail.domain.usage import BilledUsage, Usage
from steptrail.projections.kernel.table import Row, Scalar
from steptrail.projections.runs_view.daily import count_failure, count_retry, count_tool_call
from steptrail.projections.runs_view.memory import RunMemory, RunMoment, TryMemory, VisitMemory
from steptrail.projections.runs_view.signature import NO_ERROR, ErrorKind, template_of
from steptrail.projections.runs_view.spending import Spending
from steptrail.projections.runs_view.tables import SUSPENDED, TRIES, VISITS
from steptrail.projections.runs_view.values import micros, tokens, whole

VISIT_HANDLERS = Handlers[RunMemory, [RunMoment], None]()

_Ended = (
    stored.NodeAttemptCompleted | stored.NodeAttemptFailed | stored.NodeAttemptInterrupted | stored.NodeAttemptSuspended
)

_NEW_VISIT: Row = {
    **VISITS.blanks,
    **tokens(Usage()),
    "status": "in_progress",
    "active_us": 0,
    "attempts": 0,
    "item_errors": 0,
}
_NEW_TRY: Row = {**TRIES.blanks, **tokens(Usage())}


@VISIT_HANDLERS.of(stored.NodeOpened)
def _opened(run: RunMemory, event: stored.NodeOpened, moment: RunMoment) -> None:
    _begin(run, event.node, event.visit, {"number": event.number, "items": event.items}, moment)


def _begin(run: RunMemory, node: str, number: int, said: Row, moment: RunMoment) -> None:
    row: dict[str, Scalar] = {
        **_NEW_VISIT,
        "execution": run.execution,
        "node": plain(node),
        "visit": number,
        "started_at": moment.at,
        "version": moment.version,
        **said,
    }
    run.visits[node] = visit = VisitMemory(node, number, row)
    if row["items"] is None:
        visit.tries[None] = TryMemory()
    _put(run, visit, moment)


def take_up_again(run: RunMemory, visits: Iterable[VisitMemory], moment: RunMoment) -> None:
    """Begin the visits anew that an earlier execution has left, in an execution that retries it."""
    for visit in visits:
        _begin(run, visit.node, visit.visit, {name: visit.row[name] for name in ("number", "items")}, moment)


def _put(run: RunMemory, visit: VisitMemory, moment: RunMoment) -> None:
    if visit.bill.models:
        visit.row["cost_nanos"] = visit.bill.nanos_of_known(run.prices)
    moment.changes.put(VISITS, visit.row)


def _visit(run: RunMemory, event: VisitEvent) -> VisitMemory | None:
    found = run.visits.get(event.node)
    return found if found is not None and found.visit == event.visit else None


def _try_of(visit: VisitMemory, item: int | None) -> TryMemory | None:
    """Return what is open of a visit or of an item; None when that is over. An item of a map begins when it is met."""
    return visit.tries.setdefault(item, TryMemory()) if item is not None else visit.tries.get(None)


@VISIT_HANDLERS.of(stored.NodeAttemptStarted)
def _started(run: RunMemory, event: stored.NodeAttemptStarted, moment: RunMoment) -> None:
    if (visit := _visit(run, event)) is None or (task := _try_of(visit, event.item)) is None:
        return
    is_look = task.row.get("status") == SUSPENDED
    if 0 < task.attempt < event.attempt and not is_look:
        _count_retry(run, visit, task, moment)
    kind = _kind_below(run, event)
    if kind is not None and event.stream_effect is not None:
        task.child = f"{kind}:{session_for_call(event.stream_effect)}"
    task.attempt, task.is_running, task.is_parked = event.attempt, True, False
    task.row = {
        **_new_try(run, visit, event, event.attempt),
        "status": "running",
        "effect": event.effect.value,
        "effect_id": plain(event.effect_id),
        "started_at": moment.at,
        "child": task.child,
        "version": moment.version,
    }
    run.tool_calls += 1
    run.retries += event.attempt > 1 and not is_look
    run.active = run.active.started(moment.at)
    visit.row.update(attempts=_number(visit.row["attempts"]) + 1, effect=event.effect.value)
    moment.changes.put(TRIES, task.row)
    _put(run, visit, moment)


def _kind_below(run: RunMemory, event: stored.NodeAttemptStarted) -> str | None:
    """Return the kind of the stream that the node runs; None when it runs none, or the workflow cannot be read."""
    try:
        node = graph_of(run.definition).node(event.node)
    except (LookupError, ValueError):
        return None
    return stream_kind(working_node(node, event.item))


def _number(value: Scalar) -> int:
    return value if isinstance(value, int) else 0


def _new_try(run: RunMemory, visit: VisitMemory, event: TaskEvent, attempt: int) -> Row:
    item = -1 if event.item is None else event.item
    key: Row = {"execution": run.execution, "node": plain(visit.node), "visit": visit.visit, "item": item}
    return {**_NEW_TRY, **key, "attempt": attempt}


def _end_try(
    run: RunMemory,
    event: _Ended,
    status: str,
    moment: RunMoment,
    *,
    error: ErrorKind | None = None,
    settled_by: str | None = None,
) -> None:
    """Write how a try has ended. What did not begin is no try, and has a row of the number 0."""
    if (visit := _visit(run, event)) is None or (task := _try_of(visit, event.item)) is None:
        return
    was_tried = task.is_running or task.is_parked
    is_parked = isinstance(event, stored.NodeAttemptInterrupted) and event.then is stored.NodeThen.PARK
    row = task.row if was_tried else {**_new_try(run, visit, event, 0), "version": moment.version}
    task.is_running, task.is_parked = False, is_parked
    row.update(
        status=status,
        duration_us=micros(event.duration_seconds),
        cut_by=event.reason.value if isinstance(event, stored.NodeAttemptInterrupted) else None,
        end_version=moment.version,
        settled_by=None if settled_by is None else plain(settled_by),
        **(NO_ERROR if error is None else error.columns()),
    )
    _bill(run, visit, task, event.usage, row)
    moment.changes.put(TRIES, row)
    visit.row["active_us"] = whole(_number(visit.row["active_us"]) + micros(event.duration_seconds))
    _put(run, visit, moment)
    if not any(task.is_running for visit in run.visits.values() for task in visit.tries.values()):
        run.active = run.active.stopped(moment.at)
    if isinstance(event, stored.NodeAttemptCompleted) and event.item is not None:
        del visit.tries[event.item]


def _bill(
    run: RunMemory, visit: VisitMemory, task: TryMemory, bill: BilledUsage | None, row: dict[str, Scalar]
) -> None:
    """Add a bill. That of a stream below grows from event to event, and is not the run's own."""
    if bill is None:
        return
    if task.child is not None:
        more = bill.beyond(run.bills.get(task.child, BilledUsage()))
        run.below.add(more, more.models)
        run.bills[task.child] = bill
        return
    run.own.add(bill, bill.models)
    visit.bill.add(bill, bill.models)
    visit.row.update(tokens(visit.bill.usage))
    row.update(tokens(bill), cost_nanos=Spending(bill, bill.models).nanos_of_known(run.prices))


@VISIT_HANDLERS.of(stored.NodeAttemptCompleted)
def _try_completed(run: RunMemory, event: stored.NodeAttemptCompleted, moment: RunMoment) -> None:
    _end_try(run, event, "completed", moment, settled_by=event.settled_by)


@VISIT_HANDLERS.of(stored.NodeAttemptFailed)
def _try_failed(run: RunMemory, event: stored.NodeAttemptFailed, moment: RunMoment) -> None:
    error = _kind(event.failure, event.node, event.error.message, event.error).written(moment.changes)
    _end_try(run, event, "failed", moment, error=error, settled_by=event.settled_by)


@VISIT_HANDLERS.of(stored.NodeAttemptInterrupted)
def _try_interrupted(run: RunMemory, event: stored.NodeAttemptInterrupted, moment: RunMoment) -> None:
    _end_try(run, event, "interrupted", moment)


@VISIT_HANDLERS.of(stored.NodeAttemptSuspended)
def _try_suspended(run: RunMemory, event: stored.NodeAttemptSuspended, moment: RunMoment) -> None:
    _end_try(run, event, SUSPENDED, moment)


@VISIT_HANDLERS.of(stored.NodeAttemptSettledLate)
def _settled_late(run: RunMemory, event: stored.NodeAttemptSettledLate, moment: RunMoment) -> None:
    """Count what was used. It is written with the next row of the execution."""
    if event.usage is not None:
        run.own.add(event.usage, event.usage.models)


@VISIT_HANDLERS.of(stored.NodeRetryScheduled, stored.NodeEvaluated)
def _nothing(run: RunMemory, event: Event, moment: RunMoment) -> None:
    """Change nothing: another try, or the end of the visit, comes later."""


def _kind(failure: FailureClass, node: str, message: str, error: ErrorInfo | None) -> ErrorKind:
    return ErrorKind(
        failure.value, "" if error is None else plain(error.error_class), plain(node), template_of(message)
    )


def _kind_of(event: stored.NodeFailureRecorded | stored.NodeFailed, moment: RunMoment) -> ErrorKind:
    error: NodeError = event.error
    return _kind(error.failure, event.node, error.message, error.error).written(moment.changes)


def _close(run: RunMemory, event: VisitEvent, status: str, moment: RunMoment, said: Row) -> None:
    """End a visit that goes on along its edges, and count it. Nothing changes it any more."""
    if (visit := _visit(run, event)) is None:
        return
    del run.visits[visit.node]
    _end(run, visit, status, moment, said)
    _count(run, visit, moment)
    run.steps += 1


def _end(run: RunMemory, visit: VisitMemory, status: str, moment: RunMoment, said: Row) -> None:
    visit.row.update(said)
    visit.row.update(status=status, ended_at=moment.at, end_version=moment.version)
    _put(run, visit, moment)


def _count(run: RunMemory, visit: VisitMemory, moment: RunMoment) -> None:
    row = {**visit.row, "tool": plain(visit.node), "duration_us": visit.row["active_us"]}
    count_tool_call(run, row, moment)
    count_failure(run, row, moment)


def _count_retry(run: RunMemory, visit: VisitMemory, task: TryMemory, moment: RunMoment) -> None:
    """Count the newest try, after which another one comes."""
    row = {**task.row, "tool": plain(visit.node)}
    count_retry(run, row, moment)
    count_failure(run, row, moment, is_retried=True)


def count_cut_visits(run: RunMemory, moment: RunMoment) -> None:
    """Count the visits that failed or were cancelled, when their run ends: until then their tries were cut off."""
    for visit in run.visits.values():
        if visit.row["ended_at"] is not None:
            _count(run, visit, moment)


@VISIT_HANDLERS.of(stored.NodeCompleted)
def _completed(run: RunMemory, event: stored.NodeCompleted, moment: RunMoment) -> None:
    _close(run, event, "completed", moment, {})


@VISIT_HANDLERS.of(stored.NodeSkipped)
def _skipped(run: RunMemory, event: stored.NodeSkipped, moment: RunMoment) -> None:
    _close(run, event, "skipped", moment, {})


@VISIT_HANDLERS.of(stored.NodeFailureRecorded)
def _failure_recorded(run: RunMemory, event: stored.NodeFailureRecorded, moment: RunMoment) -> None:
    if (visit := _visit(run, event)) is None:
        return
    kind = _kind_of(event, moment)
    run.errors += 1
    if event.item is None:
        _close(run, event, "recorded", moment, {"rule": plain(event.rule), **kind.columns()})
        return
    visit.tries.pop(event.item, None)
    visit.row["item_errors"] = _number(visit.row["item_errors"]) + 1
    _put(run, visit, moment)


@VISIT_HANDLERS.of(stored.NodeFailed)
def _failed(run: RunMemory, event: stored.NodeFailed, moment: RunMoment) -> None:
    run.failure = kind = _kind_of(event, moment)
    run.errors += 1
    if (visit := _visit(run, event)) is not None:
        visit.tries.pop(event.item, None)
        _end(run, visit, "failed", moment, {"rule": plain(event.rule), **kind.columns()})


@VISIT_HANDLERS.of(stored.NodeCancelled)
def _cancelled(run: RunMemory, event: stored.NodeCancelled, moment: RunMoment) -> None:
    if (visit := _visit(run, event)) is None:
        return
    visit.tries.clear()
    if visit.row["ended_at"] is None:
        _end(run, visit, "cancelled", moment, {"reason": event.reason})
