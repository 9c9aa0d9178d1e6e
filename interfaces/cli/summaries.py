"""One event on one line, for `tail` and `show --events`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.base import full_form
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.forks import Forked
from steptrail.domain.shared.run import StopReason
from steptrail.domain.tools import result_text
from steptrail.interfaces.cli.output import one_line
from steptrail.projections.rendering import many, why_cut
from steptrail.projections.scores import score_words

_CUT = 100


class _Settled(Protocol):
    @property
    def settled_by(self) -> str | None: ...

    @property
    def settled_reason(self) -> str | None: ...


FOLLOWS: Mapping[str, str] = {
    Then.RERUN: "it runs again",
    Then.TELL: "the model is told",
    Then.FAIL: "it has failed",
    Then.PARK: "a person is to say",
}
"""The consequences of an interruption, of a call or of a node, in the words of a summary."""


def how_it_stopped(reason: str | None, *, answered: bool) -> str:
    """Return a stop reason for people; where it is not `completed`, also whether there is an answer all the same."""
    is_plain = reason is None or reason == StopReason.COMPLETED
    return f"{reason}, answered" if answered and not is_plain else str(reason or "")


def clock_time(at: int) -> str:
    """Return an instant for people, in UTC to the millisecond."""
    return f"{to_datetime(at):%Y-%m-%d %H:%M:%S}.{at // 1000 % 1000:03}"


def record_data(record: Recorded[Event]) -> dict[str, JsonValue]:
    """Return a record as JSON, whole."""
    head = record.head
    return {
        "version": record.version,
        "at": to_datetime(record.at).isoformat(),
        "type": record.event.TYPE,
        "actor": head.actor if head else None,
        "segment": head.segment if head else None,
        "commitId": head.commit_id if head else None,
        "event": full_form(record.event),
    }


def summary(event: Event) -> str:
    """Return what an event says, short and on one line; nothing for a type that is not an agent's."""
    return one_line(words_of(event), _CUT) if isinstance(event, stored.AgentEvent) else ""


# A new event is a type error here: the function returns in every case of the union, and has no other.


def words_of(event: stored.AgentEvent | Forked) -> str:
    """Return what an event says. Those that workflows have too are told of with the same words there."""
    match event:
        case stored.SessionStarted(name=name):
            return name
        case Forked():
            return f"{event.source} after {event.version} events, by {event.by}{because(event.reason)}"
        case stored.MessagesAppended(messages=messages, by=by):
            return f"{by}: {messages[-1].in_words if messages else ''}"
        case stored.MetadataChanged(changes=changes, removed=removed, by=by):
            return f"{by}: {', '.join([*changes, *(f'-{name}' for name in removed)])}"
        case stored.ExecutionStarted(execution_id=name, input=None):
            return f"{name}: retry of {event.retry_of}, by {event.by}{because(event.reason)}"
        case stored.ExecutionStarted(execution_id=name, input=asked, by=by):
            return f"{name}{f', by {by}' if by != 'user' else ''}: {asked.in_words if asked is not None else ''}"
        case stored.ExecutionResumed(segment=segment, worker=worker, ended_by=ended_by, context=context):
            other = ", with another context" if context is not None else ""
            return f"segment {segment} on {worker}, after {ended_by.value}{other}{changed_by(event.changes)}"
        case stored.ExecutionPaused() | stored.StopRequested() | stored.PauseRequested() | stored.PauseLifted():
            return f"{event.by}{because(event.reason)}"
        case stored.SessionScored():
            return score_words(event)
        case stored.StepStarted(number=number):
            return f"step {number}"
        case stored.StepCompleted(number=number, duration_seconds=seconds, errors=errors):
            return f"step {number} in {seconds:.2f} s{_errors(errors)}"
        case stored.ExecutionFinished(status=status, stop_reason=reason, resolved_by=by, answered=answered):
            recorded = _errors(event.recorded_errors).replace(",", " with", 1)
            return f"{status.value}{recorded} ({how_it_stopped(reason, answered=answered)}), by {by}"
        case stored.InferenceStarted(model=model, message_count=messages):
            return f"{model}, {many(messages, 'message')}"
        case stored.InferenceCompleted(reply=reply, duration_seconds=seconds):
            wanted = ", ".join(call.name for call in reply.tool_calls)
            said = f"calls {wanted}" if wanted else reply.text
            return f"{seconds:.2f} s, {many(reply.usage.total, 'token')}, {reply.finish_reason.value}: {said}"
        case stored.InferenceFailed(error=error, duration_seconds=seconds):
            return f"{seconds:.2f} s, {_error(error)}"
        case stored.InferenceInterrupted():
            return why_cut(event)
        case stored.AnswerAccepted(is_changed=True, value=value):
            return f"as {result_text(value)}"
        case stored.AnswerAccepted():
            return "as it is"
        case stored.AnswerRejected(problems=problems):
            return "; ".join(map(str, problems))
        case stored.HooksRan(hook_type=hook_type, hooks=hooks, forbidden_by=by):
            return f"{hook_type}: {', '.join(hooks)}{f'; {by} forbade it' if by else ''}"
        case stored.InferenceRequestAmended(hook=hook):
            return f"by {hook}"
        case stored.InstructionsResolved(name=name, text=text):
            return f"{name}: {text or 'none'}"
        case stored.UsageRecorded(hook=hook, usage=usage):
            return f"{many(usage.total, 'token')}, by {hook}"
        case stored.ToolExecutionStarted(tool=tool, effect_id=effect, attempt=attempt):
            return f"{tool} ({effect}){f', attempt {attempt}' if attempt > 1 else ''}"
        case stored.ToolCallDeferred(tool=tool, effect_id=effect, expires_at=until):
            return f"{tool} ({effect}), until {clock_time(until)}"
        case stored.ToolExecutionCompleted(position=position, result=result, duration_seconds=seconds):
            shown = " ".join((result_text(result), *(part.placeholder for part in event.files)))
            return f"call {position} {settled_or(event, f'in {seconds:.2f} s')}: {shown}"
        case stored.ToolExecutionFailed(position=position, error=error, duration_seconds=seconds):
            return f"call {position} {settled_or(event, f'in {seconds:.2f} s')}, {_error(error)}"
        case stored.ToolExecutionInterrupted(position=position, then=then):
            return f"call {position}: {why_cut(event)}, outcome unknown: {FOLLOWS[then]}"
        case stored.ToolExecutionSuspended(position=position, session=session, reason=reason):
            return f"call {position}: session {session} {reason}"
        case stored.ToolRetryScheduled(position=position, delay_seconds=delay):
            return f"call {position} again in {delay:.2f} s"
        case stored.ToolExecutionSettledLate(effect_id=effect, error=error):
            return f"{effect}: {_error(error) if error else 'completed'}"
        case stored.ToolCallBlocked(position=position, hook=hook, reason=reason):
            return f"call {position} by {hook}: {reason}"
        case stored.ToolCallAmended(position=position, hook=hook):
            return f"call {position} by {hook}"
        case stored.ToolCallCancelled(position=position, reason=reason):
            return f"call {position}: {reason}"
        case stored.ToolCallHeld(position=position, hook=hook, rule=rule):
            return f"call {position} by {hook}{because(rule.reason)}"
        case stored.ApprovalRequested(approval_id=approval, tool=tool, expires_at=until):
            return f"{approval} for {tool}, until {clock_time(until)}"
        case stored.ApprovalGranted(approval_id=approval, by=by, arguments=edited):
            return f"{approval} by {by}{', with other arguments' if edited is not None else ''}"
        case stored.ApprovalDenied(approval_id=approval, by=by, reason=reason):
            return f"{approval} by {by}{because(reason)}"
        case stored.ApprovalExpired(approval_id=approval):
            return approval
        case stored.EvaluationsRecorded(phase=phase, votes=votes):
            return f"{phase}: {', '.join(f'{vote.criterion_class} {vote.decision.value}' for vote in votes)}"
        case stored.ContinuationEvaluated(should_continue=goes_on, resolved_by=by, stop_reason=reason):
            return f"go on, by {by}" if goes_on else f"stop ({reason.value}), by {by}"
        case stored.RetryScheduled(error_type=kind, failures=failures, delay_seconds=delay):
            return f"failure {failures} ({kind.value}), again in {delay:.2f} s"
        case stored.ModelSwitched() | stored.ConversationCompacted():
            return str(event)
        case stored.WaitStarted(kind=kind, until=until, problem=problem):
            why = f" ({problem})" if problem else ""
            return f"{kind}{why}{f' until {clock_time(until)}' if until is not None else ''}"
        case stored.WaitEnded(reason=reason, by=by):
            return f"{reason}{f' by {by}' if by else ''}{because(event.settled_reason)}"


def changed_by(changes: Sequence[str]) -> str:
    """Return the end of a line that says what is different in the code that goes on; empty when nothing is."""
    return f", changed: {', '.join(changes)}" if changes else ""


def because(reason: str | None) -> str:
    """Return a reason as the end of a line, and an empty text where there is none."""
    return f": {reason}" if reason else ""


def settled_or(event: _Settled, otherwise: str) -> str:
    """Return who has said how a call ended, and why; `otherwise` for one of which nobody had to."""
    if event.settled_by is None:
        return otherwise
    return f"said by {event.settled_by}{f' ({event.settled_reason})' if event.settled_reason else ''}"


def _error(error: ErrorInfo) -> str:
    return f"{error.type.value} error: {error}"


def _errors(count: int) -> str:
    return f", {many(count, 'error')}" if count else ""
