"""Handlers of the tool calls of agents: each event moves its call by the table of the machine.

An event that does not apply in the phase of its call is passed over, as the machine does.
"""

from collections.abc import Iterable

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import CallPhase, call_phase_after
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.fold_calls import unknown_outcome
from steptrail.domain.agent.step import CALL_STATUS
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.storable import plain
from steptrail.domain.usage import BilledUsage
from steptrail.projections.kernel.table import Row, Scalar
from steptrail.projections.runs_view.daily import count_failure, count_retry, count_tool_call
from steptrail.projections.runs_view.memory import CallMemory, RunMemory, RunMoment, StepMemory
from steptrail.projections.runs_view.signature import NO_ERROR, kind_of
from steptrail.projections.runs_view.tables import ATTEMPTS, SUSPENDED, TOOL_CALLS
from steptrail.projections.runs_view.values import micros

CALL_HANDLERS = Handlers[RunMemory, [RunMoment], None]()

_NEW: Row = {**TOOL_CALLS.blanks, "attempts": 0}
_NO_OUTCOME: Row = {"duration_us": None, **NO_ERROR, "end_version": None}
_STATUS = {phase: CALL_STATUS[phase].value for phase in CallPhase}


def ask_for(run: RunMemory, step: StepMemory, tools: Iterable[str], moment: RunMoment) -> None:
    """Begin the calls of a reply, given the names of their tools."""
    answers = run.answers if step.takes_answers_in_calls else None
    for place, tool in enumerate(tools):
        phase = CallPhase.ANSWER if tool == answers else CallPhase.NEW
        row: dict[str, Scalar] = {
            **_NEW,
            "execution": run.execution,
            "step": step.number,
            "call": place,
            "tool": plain(tool),
            "status": _STATUS[phase],
            "is_answer": phase is CallPhase.ANSWER,
            "version": moment.version,
        }
        step.calls.append(CallMemory(tool, phase, row))
        moment.changes.put(TOOL_CALLS, row)


def move_call(
    run: RunMemory, position: int | None, event: stored.AgentEvent, moment: RunMoment, **said: Scalar
) -> CallMemory | None:
    """Move a call of the open step, and change these columns of its row; None when the event does not apply."""
    if position is None or position >= len(run.calls):
        return None
    call = run.calls[position]
    phase = call_phase_after(call.phase, event)
    if phase is None:
        return None
    call.phase = phase
    call.row.update(said, status=_STATUS[phase])
    moment.changes.put(TOOL_CALLS, call.row)
    return call


def close_step(run: RunMemory, moment: RunMoment) -> None:
    """Count the calls of the step, which nothing can change any more, and forget it."""
    if (step := run.step) is None:
        return
    run.step = None
    for call in step.calls:
        if not call.row["is_answer"]:
            count_tool_call(run, call.row, moment)
            count_failure(run, call.row, moment)


def _started(run: RunMemory, event: stored.ToolExecutionStarted | stored.ToolCallDeferred, moment: RunMoment) -> None:
    if (call := move_call(run, event.position, event, moment)) is None:
        return
    if not call.attempt:
        run.tool_calls += 1
    if call.ended is not None:
        _put_attempt(run, call, moment)
        run.retries += call.ended["status"] != SUSPENDED
    call.attempt, call.try_version, call.ended = call.attempt + 1, moment.version, None
    effect = plain(event.effect_id)
    call.row.update(_NO_OUTCOME, effect_id=effect, attempts=call.attempt, started_at=moment.at)
    if isinstance(event, stored.ToolExecutionStarted):
        kind = run.kinds_below.get(call.tool)
        child = None if kind is None else f"{kind}:{session_for_call(event.effect_id)}"
        call.row.update(effect=event.effect.value, child=child)


CALL_HANDLERS.of(stored.ToolExecutionStarted)(_started)
CALL_HANDLERS.of(stored.ToolCallDeferred)(_started)


def _put_attempt(run: RunMemory, call: CallMemory, moment: RunMoment) -> None:
    """Write the newest try, which the row of the call will not tell of any more."""
    same = {name: call.row[name] for name in ("execution", "step", "call", "tool", "started_at")}
    row: Row = {**same, "attempt": call.attempt, "version": call.try_version, **(call.ended or {})}
    moment.changes.put(ATTEMPTS, row)
    if row["status"] != SUSPENDED:
        count_retry(run, row, moment)
    count_failure(run, row, moment, is_retried=True)


def _end(
    run: RunMemory,
    event: stored.AgentEvent,
    position: int | None,
    moment: RunMoment,
    status: str,
    *,
    bill: BilledUsage | None = None,
    error: ErrorInfo | None = None,
    seconds: float | None = None,
    settled_by: str | None = None,
) -> None:
    """End a try of a call, or the call, and write with what, if the event applies."""
    if (call := move_call(run, position, event, moment)) is None:
        return
    call.error = None
    if error is not None:
        is_content = isinstance(event, stored.ToolCallBlocked)
        call.error = kind_of(error, call.tool, is_content=is_content).written(moment.changes)
    outcome: Row = {
        "status": status,
        "duration_us": None if seconds is None else micros(seconds),
        **(NO_ERROR if call.error is None else call.error.columns()),
        "end_version": moment.version,
    }
    call.ended = outcome if call.attempt else None
    call.row.update(outcome, status=_STATUS[call.phase])
    if settled_by is not None:
        call.row["settled_by"] = plain(settled_by)
    if bill is not None:
        more = bill.beyond(call.billed)
        run.below.add(more, more.models)
        call.billed = bill


@CALL_HANDLERS.of(stored.ToolExecutionCompleted)
def _completed(run: RunMemory, event: stored.ToolExecutionCompleted, moment: RunMoment) -> None:
    seconds, by = event.duration_seconds, event.settled_by
    _end(run, event, event.position, moment, "completed", bill=event.usage, seconds=seconds, settled_by=by)


@CALL_HANDLERS.of(stored.ToolExecutionFailed)
def _failed(run: RunMemory, event: stored.ToolExecutionFailed, moment: RunMoment) -> None:
    bill, seconds, by = event.usage, event.duration_seconds, event.settled_by
    _end(run, event, event.position, moment, "failed", bill=bill, error=event.error, seconds=seconds, settled_by=by)


@CALL_HANDLERS.of(stored.ToolRetryScheduled)
def _retry_scheduled(run: RunMemory, event: stored.ToolRetryScheduled, moment: RunMoment) -> None:
    move_call(run, event.position, event, moment, **_NO_OUTCOME)


@CALL_HANDLERS.of(stored.ToolExecutionInterrupted)
def _interrupted(run: RunMemory, event: stored.ToolExecutionInterrupted, moment: RunMoment) -> None:
    is_there, seconds = event.position < len(run.calls), event.duration_seconds
    error = unknown_outcome(run.calls[event.position].tool) if is_there and event.then is Then.FAIL else None
    _end(run, event, event.position, moment, "interrupted", bill=event.usage, error=error, seconds=seconds)


@CALL_HANDLERS.of(stored.ToolExecutionSuspended)
def _suspended(run: RunMemory, event: stored.ToolExecutionSuspended, moment: RunMoment) -> None:
    _end(run, event, event.position, moment, SUSPENDED, bill=event.usage, seconds=event.duration_seconds)


@CALL_HANDLERS.of(stored.ToolExecutionSettledLate)
def _settled_late(run: RunMemory, event: stored.ToolExecutionSettledLate, moment: RunMoment) -> None:
    for place, call in enumerate(run.calls):
        if call.row["effect_id"] == plain(event.effect_id) and call.attempt == event.attempt:
            status = "completed" if event.error is None else "failed"
            _end(run, event, place, moment, status, bill=event.usage, error=event.error)
            return


@CALL_HANDLERS.of(stored.ToolCallBlocked)
def _blocked(run: RunMemory, event: stored.ToolCallBlocked, moment: RunMoment) -> None:
    error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:ToolCallBlocked", message=event.reason)
    _end(run, event, event.position, moment, "blocked", error=error)


def _moved(
    run: RunMemory,
    event: stored.ToolCallAmended | stored.ToolCallHeld | stored.AnswerAccepted | stored.AnswerRejected,
    moment: RunMoment,
) -> None:
    move_call(run, event.position, event, moment)


CALL_HANDLERS.of(stored.ToolCallAmended)(_moved)
CALL_HANDLERS.of(stored.ToolCallHeld)(_moved)
CALL_HANDLERS.of(stored.AnswerAccepted)(_moved)
CALL_HANDLERS.of(stored.AnswerRejected)(_moved)


@CALL_HANDLERS.of(stored.ToolCallCancelled)
def _cancelled(run: RunMemory, event: stored.ToolCallCancelled, moment: RunMoment) -> None:
    if (call := move_call(run, event.position, event, moment)) is not None:
        call.row.update(call.ended or _NO_OUTCOME, status=_STATUS[call.phase], end_version=moment.version)


@CALL_HANDLERS.of(stored.HooksRan)
def _hooks_ran(run: RunMemory, event: stored.HooksRan, moment: RunMoment) -> None:
    if event.forbidden_by is not None and event.hook_type == HookType.PRE_TOOL_USE:
        move_call(run, event.position, event, moment)


@CALL_HANDLERS.of(stored.ApprovalRequested)
def _requested(run: RunMemory, event: stored.ApprovalRequested, moment: RunMoment) -> None:
    call = move_call(run, event.position, event, moment, approval="asked", approved_by=None)
    if call is not None:
        call.approval = event.approval_id
        run.approvals += 1


@CALL_HANDLERS.of(stored.ApprovalGranted)
def _granted(run: RunMemory, event: stored.ApprovalGranted, moment: RunMoment) -> None:
    _answered(run, event, moment, approval="granted", approved_by=plain(event.by))


@CALL_HANDLERS.of(stored.ApprovalDenied)
def _denied(run: RunMemory, event: stored.ApprovalDenied, moment: RunMoment) -> None:
    _answered(run, event, moment, approval="denied", approved_by=plain(event.by), end_version=moment.version)


@CALL_HANDLERS.of(stored.ApprovalExpired)
def _expired(run: RunMemory, event: stored.ApprovalExpired, moment: RunMoment) -> None:
    _answered(run, event, moment, approval="expired", end_version=moment.version)


def _answered(
    run: RunMemory,
    event: stored.ApprovalGranted | stored.ApprovalDenied | stored.ApprovalExpired,
    moment: RunMoment,
    **said: Scalar,
) -> None:
    for place, call in enumerate(run.calls):
        if call.approval == event.approval_id:
            move_call(run, place, event, moment, **said)
            return
