"""Asks people about the tool calls of a step: all questions at once, in one wait, which is over when none is open.

The question about a call is due when it is the call's turn. The questions about the calls after it are asked with it,
so that people see all that a reply needs of them, and can answer in any order. What they allowed runs after the wait,
in the order of the reply. The results of external calls are waited for in the same wait: such calls are deferred
before it, and alone they hold up no other call.
"""

from collections.abc import Callable, Sequence

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.call_starts import no_room_for
from steptrail.domain.agent.effects import AskPeople, KeepWaiting, Record
from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.agent.ids import effect_id
from steptrail.domain.agent.step import Hold, ToolExecution
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.shared.events import WaitKind


def must_ask(execution: ExecutionFold, step: StepFold, first: ToolExecution) -> bool:
    """Tell whether people have to answer before the call can start whose turn it is."""
    return who_demands(execution, first) is not None or CallPhase.ASKING in [call.phase for call in step.calls]


def ask(execution: ExecutionFold, step: StepFold, now: int) -> Record | AskPeople:
    """Return all questions about the calls that are left, and the wait for the answers."""
    requested = [
        _question(execution, step, call, hold, now)
        for call in step.calls
        if (hold := who_demands(execution, call)) is not None
    ]
    # A question that is open already is not asked again, but waited for with the others.
    asked = [(call.position, open_until(call)) for call in step.calls if is_asked(call)]
    asked += [(each.position, each.expires_at) for each in requested]
    is_about_approvals = requested or any(call.phase is CallPhase.ASKING for call in step.calls)
    wait = stored.WaitStarted(
        kind="approval" if is_about_approvals else "external",
        position=min(position for position, _ in asked),
        until=max(until for _, until in asked),
    )
    return AskPeople((*requested, wait)) if requested else Record((wait,))


def is_asked(call: ToolExecution) -> bool:
    """Tell whether somebody is asked about the call: for an approval, or for its result."""
    return call.phase in {CallPhase.ASKING, CallPhase.DEFERRED}


def open_until(call: ToolExecution) -> int:
    """Return when the question about a call expires, in microseconds of UTC; 0 when nobody is asked about it."""
    asked = call.open_approval or call.open_deferral
    return 0 if asked is None else asked.expires_at


def asked_or_failed(
    calls: Sequence[ToolExecution], due: AskPeople, unfit: Callable[[ToolExecution], ErrorInfo | None], behind: int
) -> tuple[stored.AgentEvent, ...]:
    """Return the questions, or instead the failures of the calls that could not run whatever people say.

    `unfit` returns why the arguments of a call do not fit its tool; None when they do. The clock by which the questions
    were made is so many microseconds `behind` the time of day, by which people answer.
    """
    asked = [calls[event.position] for event in due.events if isinstance(event, stored.ApprovalRequested)]
    failed = tuple(
        stored.ToolExecutionFailed(position=call.position, error=error, duration_seconds=0.0)
        for call in asked
        if (error := unfit(call)) is not None
    )
    return failed or tuple(_put_off(event, behind) for event in due.events)


def _put_off(event: stored.AgentEvent, by: int) -> stored.AgentEvent:
    match event:
        case stored.ApprovalRequested():
            return structs.replace(event, expires_at=event.expires_at + by)
        case stored.WaitStarted(until=int(until)):
            return structs.replace(event, until=until + by)
        case _:
            return event


def hear(step: StepFold | None, kind: WaitKind, now: int) -> Record | KeepWaiting:
    """Return what is due in a wait of this kind for answers: that questions have expired, its end, or more waiting."""
    asked = [call for call in step.calls if is_asked(call)] if step is not None else []
    left = [until for call in asked if (until := open_until(call)) > now]
    expired = tuple(_expiry(call) for call in asked if open_until(call) <= now)
    if not left:
        return Record((*expired, stored.WaitEnded(reason="due" if expired else "settled")))
    return Record(expired) if expired else KeepWaiting(kind, max(left))


def _expiry(call: ToolExecution) -> stored.ApprovalExpired | stored.ToolExecutionFailed:
    if (asked := call.open_approval) is not None:
        return stored.ApprovalExpired(approval_id=asked.id)
    message = f"nobody answered the call of {call.name} in time"
    error = ErrorInfo(type=ErrorType.TIMEOUT, error_class="steptrail:NoAnswer", message=message)
    return stored.ToolExecutionFailed(position=call.position, error=error, duration_seconds=0.0, expired=True)


def who_demands(execution: ExecutionFold, call: ToolExecution) -> Hold | None:
    """Return who demands an approval of a call about which nobody has been asked yet; None when nobody does.

    Nobody is asked about a call that would be one too many whatever is answered: it is refused when it is its turn.
    """
    if call.phase not in {CallPhase.NEW, CallPhase.HELD}:
        return None
    spec = execution.agent.tool(call.name)
    by_its_tool = Hold(spec.approval, call.name) if spec is not None and spec.approval is not None else None
    hold = call.hold or by_its_tool
    if hold is None or no_room_for(execution, call) is not None:
        return None
    return hold


def _question(
    execution: ExecutionFold, step: StepFold, call: ToolExecution, hold: Hold, now: int
) -> stored.ApprovalRequested:
    return stored.ApprovalRequested(
        approval_id=effect_id(execution.id, step.number, call.position),
        position=call.position,
        tool=call.name,
        arguments_digest=call.arguments_digest,
        expires_at=now + round(hold.rule.expires * 1e6),
        asked_by=hold.asked_by,
        reason=hold.rule.reason,
    )
