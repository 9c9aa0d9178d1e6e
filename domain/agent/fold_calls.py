"""Fold handlers of tool calls: each event moves its call by the table in `call_phases`, and adds its data to the call.

An event without an entry in the table for the phase of its call is ignored, and its bill too. Such are a late report
about another attempt, an interruption after the outcome is known, and an event about a call that does not exist.
"""

from bisect import bisect_left
from typing import Any

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import call_phase_after, is_looked_after
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.ids import position_of
from steptrail.domain.agent.step import Deferral, Suspension, ToolExecution
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.kernel.standing import answered
from steptrail.domain.tools import OnUnknown, result_text
from steptrail.domain.usage import BilledUsage

CALL_HANDLERS = Handlers[SessionFold, [int], None]()


def move_call(
    fold: SessionFold, position: int | None, event: stored.AgentEvent, **changes: Any
) -> ToolExecution | None:
    """Move a call of the open step to the phase after `event`, and change these fields; return the call before that.

    Returns None, and changes no call, when there is no such call, or when the event does not apply in its phase.
    """
    step = fold.step
    if step is None or position is None or position >= len(step.calls):
        return None
    before = step.calls[position]
    phase = call_phase_after(before.phase, event)
    if phase is None:
        return None
    step.calls[position] = structs.replace(before, phase=phase, **changes)
    return before


def end_call(
    fold: SessionFold, position: int | None, event: stored.AgentEvent, bill: BilledUsage | None = None, **changes: Any
) -> ToolExecution | None:
    """Move a call to its end as `move_call` does, and count the segment as productive; return the call before that."""
    before = move_call(fold, position, event, **changes)
    if before is not None and fold.execution is not None:
        fold.execution.productive = True
        _bill_call(fold, before, bill)
    return before


def cut_calls(fold: SessionFold, event: stored.ExecutionResumed) -> None:
    """Move the calls that a new segment finds: those that were running are in doubt, those suspended are due again.

    Of the latter, those whose stream was looked at and just waits stay as they are.
    """
    moved = None if event.moved is None else frozenset(event.moved)
    for call in fold.step.calls if fold.step is not None else ():
        if is_looked_after(call.phase, call.below, moved):
            move_call(fold, call.position, event, suspension=None)


def _bill_call(fold: SessionFold, before: ToolExecution, usage: BilledUsage | None) -> None:
    """Add the bill of the session that a call runs. Each bill is the whole one so far, so the difference is added."""
    execution = fold.execution
    if usage is None or execution is None:
        return
    more = usage.beyond(before.usage)
    fold.charge(more, *more.models)
    execution.usage_below = execution.usage_below + more
    _change(fold, before, usage=usage)


def _change(fold: SessionFold, before: ToolExecution, **changes: Any) -> None:
    """Change further fields of a call that has just been moved."""
    assert fold.step is not None  # noqa: S101 - it was moved there
    fold.step.calls[before.position] = structs.replace(fold.step.calls[before.position], **changes)


@CALL_HANDLERS.of(stored.ToolExecutionStarted)
def _started(fold: SessionFold, event: stored.ToolExecutionStarted, at: int) -> None:
    execution = fold.execution
    spec = execution.agent.tool(event.tool) if execution is not None else None
    before = move_call(
        fold,
        event.position,
        event,
        due_at=None,
        error=None,
        effect_id=event.effect_id,
        effect=event.effect,
        on_unknown=spec.on_unknown if spec is not None else OnUnknown.TELL,
        runs=spec.runs_children if spec is not None else None,
        attempt=event.attempt,
        started_with=event.arguments_digest,
    )
    if before is not None and event.attempt == 1:
        _count_call(fold, event.tool)


def _count_call(fold: SessionFold, tool: str) -> None:
    if (execution := fold.execution) is not None:
        execution.tool_calls = {**execution.tool_calls, tool: execution.tool_calls.get(tool, 0) + 1}


@CALL_HANDLERS.of(stored.ToolCallDeferred)
def _deferred(fold: SessionFold, event: stored.ToolCallDeferred, at: int) -> None:
    before = move_call(
        fold,
        event.position,
        event,
        due_at=None,
        error=None,
        effect_id=event.effect_id,
        started_with=event.arguments_digest,
        deferral=Deferral(event.expires_at, at, fold.version + 1),
    )
    if before is not None:
        _change(fold, before, attempt=before.attempt + 1)
        if not before.attempt:
            _count_call(fold, event.tool)


@CALL_HANDLERS.of(stored.ToolExecutionCompleted)
def _completed(fold: SessionFold, event: stored.ToolExecutionCompleted, at: int) -> None:
    before = end_call(
        fold,
        event.position,
        event,
        event.usage,
        result=event.result,
        text=_shown(event.result, event.shown_characters),
        files=event.files,
        duration_seconds=event.duration_seconds,
    )
    if before is not None and before.deferral is not None:
        _heard(fold, before, event, at)


@CALL_HANDLERS.of(stored.ToolExecutionFailed)
def _failed(fold: SessionFold, event: stored.ToolExecutionFailed, at: int) -> None:
    before = end_call(
        fold, event.position, event, event.usage, error=event.error, duration_seconds=event.duration_seconds
    )
    if before is not None:
        _change(fold, before, failures=before.failures + 1)
        if before.deferral is not None:
            _heard(fold, before, event, at)


def _heard(
    fold: SessionFold,
    before: ToolExecution,
    event: stored.ToolExecutionCompleted | stored.ToolExecutionFailed,
    at: int,
) -> None:
    """Take an answer to an external call, or the end of the time for one, out of what is waited for."""
    if before.open_deferral is None or before.effect_id is None:
        return
    fold.remember(event.key, f"answer {before.effect_id}")
    end_wait(fold, before.position, before.effect_id, at if event.settled_by is not None else None)


def end_wait(fold: SessionFold, position: int, question: str, answered_at: int | None = None) -> None:
    """Mark the wait for an answer about a call as answered, or leave it out when it was not.

    Such waits are in the order of the calls, so one is found without a look at all of them.
    """
    if (execution := fold.execution) is None:
        return
    waits = execution.waits
    place = bisect_left(waits, position, key=lambda wait: position_of(wait.id))
    if wait := next((each for each in waits[place : place + 1] if each.id == question), None):
        left = () if answered_at is None else answered((wait,), answered_at)
        execution.waits = (*waits[:place], *left, *waits[place + 1 :])


@CALL_HANDLERS.of(stored.ToolRetryScheduled)
def _retry_scheduled(fold: SessionFold, event: stored.ToolRetryScheduled, at: int) -> None:
    move_call(fold, event.position, event, due_at=event.due_at)


@CALL_HANDLERS.of(stored.ToolExecutionInterrupted)
def _interrupted(fold: SessionFold, event: stored.ToolExecutionInterrupted, at: int) -> None:
    before = move_call(fold, event.position, event)
    if before is None:
        return
    fold.end_at(event.deadline)
    _bill_call(fold, before, event.usage)
    if event.then is not Then.RERUN:
        error = unknown_outcome(before.name) if event.then is Then.FAIL else None
        _change(fold, before, error=error, duration_seconds=event.duration_seconds)


@CALL_HANDLERS.of(stored.ToolExecutionSuspended)
def _suspended(fold: SessionFold, event: stored.ToolExecutionSuspended, at: int) -> None:
    end_call(fold, event.position, event, event.usage, suspension=Suspension(event.session, event.reason, event.until))


@CALL_HANDLERS.of(stored.ToolExecutionSettledLate)
def _settled_late(fold: SessionFold, event: stored.ToolExecutionSettledLate, at: int) -> None:
    calls = fold.step.calls if fold.step is not None else []
    call = next((call for call in calls if call.effect_id == event.effect_id), None)
    if call is None or call.attempt != event.attempt:
        return
    text = None if event.error is not None else _shown(event.result, event.shown_characters)
    told = {"result": event.result, "text": text, "files": event.files, "error": event.error}
    end_call(fold, call.position, event, event.usage, **told)


@CALL_HANDLERS.of(stored.ToolCallBlocked)
def _blocked(fold: SessionFold, event: stored.ToolCallBlocked, at: int) -> None:
    error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:ToolCallBlocked", message=event.reason)
    end_call(fold, event.position, event, error=error)


@CALL_HANDLERS.of(stored.ToolCallAmended)
def _amended(fold: SessionFold, event: stored.ToolCallAmended, at: int) -> None:
    if (before := move_call(fold, event.position, event)) is not None:
        _change(fold, before, call=structs.replace(before.call, arguments=event.arguments, raw=None))


@CALL_HANDLERS.of(stored.ToolCallCancelled)
def _cancelled(fold: SessionFold, event: stored.ToolCallCancelled, at: int) -> None:
    before = end_call(fold, event.position, event, suspension=None)
    if before is None or before.attempt:
        return
    _change(fold, before, text=f"This call was not run: {event.reason}.")
    if event.over_the_limit and fold.execution is not None:
        fold.execution.tool_calls_refused += 1


def _shown(result: JsonValue, characters: int | None) -> str:
    text = result_text(result)
    return text if characters is None else f"{text[:characters]}…[cut: {len(text) - characters} characters more]"


def unknown_outcome(tool: str, why: str | None = None) -> ErrorInfo:
    """Return the error of a call that was cut off and counts as failed. `why` it is not run again may be said too."""
    more = "" if why is None else f", and is not run again: {why}"
    return ErrorInfo(
        type=ErrorType.TOOL,
        error_class="steptrail:OutcomeUnknown",
        message=f"the outcome of {tool} is unknown: it was cut off while it was running{more}",
    )
