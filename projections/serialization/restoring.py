"""From a slim document back to a state: the events that it implies, folded like any others."""

from collections.abc import Iterator, Mapping

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.ids import SessionId, checked_session_id, execution_id
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.processor import AGGREGATE
from steptrail.domain.errors import ConfigurationError, InvalidStateData
from steptrail.domain.inference import ModelInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import BilledUsage
from steptrail.domain.version import VERSION
from steptrail.projections.serialization.messages import message_of
from steptrail.projections.serialization.reader import Reader

MOST_STEPS = 100_000
"""Each is two events: a number that somebody made up must not take all memory."""

_BY = "deserialized"
_UNKNOWN_AGENT = AgentSnapshot(name="", model=ModelInfo(driver="", model=""), fingerprint="")
_FINISHED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)


def restored(data: Mapping[str, JsonValue]) -> AgentState:
    """Return the state that a slim document stands for. Raises `InvalidStateData`."""
    document = Reader.of(data)
    session_id = _session(document, "agent_id")
    records = [
        Recorded(version, at, event) for version, (at, event) in enumerate(_implied(document, SessionId(session_id)), 1)
    ]
    return evolve_all(initial(session_id), records)


def _implied(document: Reader, session_id: SessionId) -> Iterator[tuple[int, stored.AgentEvent]]:
    """Yield the events that would have led to what the document says, with their instants."""
    times = document.object("execution")
    began = times.instant("created_at") or times.instant("started_at") or 0
    updated = times.instant("updated_at") or began
    status = document.one_of("status", ExecutionStatus)
    messages = [message_of(entry) for entry in document.objects("messages")]
    metadata = document.values("metadata")
    parent = (
        ParentRef(kind="agent", session=_session(document, "parent_agent_id"), execution="", effect="")
        if document.has("parent_agent_id")
        else None
    )
    started = document.made("metadata", lambda: stored.SessionStarted(name="", parent=parent, metadata=metadata))
    yield began, started
    if status is ExecutionStatus.PENDING:
        yield updated, stored.MessagesAppended(messages=tuple(messages), by=_BY)
        return
    before, given, after = _around_the_input(messages)
    if before:
        yield began, stored.MessagesAppended(messages=before, by=_BY)
    yield began, _execution(session_id, given)
    if after:
        yield began, stored.MessagesAppended(messages=after, source=MessageSource.HOOK, by=_BY)
    steps, seconds = document.count("step_count", MOST_STEPS), times.seconds("cumulative_seconds")
    for number in range(1, steps + 1):
        yield began, stored.StepStarted(number=number)
        yield began, stored.StepCompleted(number=number, duration_seconds=seconds if number == steps else 0.0)
    # What took the time of an execution without steps is its first one, which has not ended.
    in_a_step = steps == 0 and seconds > 0 and status not in _FINISHED
    decided = _decided(document, status, steps, is_needed=in_a_step or status is ExecutionStatus.WAITING)
    if decided is not None:
        yield began, decided
    if in_a_step:
        yield updated - round(seconds * 1e6), stored.StepStarted(number=1)
    yield updated, stored.UsageRecorded(hook=_BY, usage=_usage(document.object("usage")))
    if decided is not None and status in _FINISHED:
        yield (
            updated,
            stored.ExecutionFinished(
                status=status,
                stop_reason=decided.stop_reason,
                resolved_by=decided.resolved_by,
                answered=decided.answered,
            ),
        )
    elif status is ExecutionStatus.PAUSED:
        yield updated, stored.ExecutionPaused(by=_BY, step_seconds=seconds if in_a_step else 0.0)
    elif status is ExecutionStatus.WAITING:
        # The document does not say what for.
        yield updated, stored.WaitStarted(kind="retry")


def _around_the_input(messages: list[Message]) -> tuple[tuple[Message, ...], Message | None, tuple[Message, ...]]:
    """Return what stands before the input of the last execution, that input if it is told, and what follows it."""
    if not messages:
        return (), None, ()
    place = max((place for place, message in enumerate(messages) if message.is_user()), default=0)
    return tuple(messages[:place]), messages[place], tuple(messages[place + 1 :])


def _execution(session_id: SessionId, given: Message | None) -> stored.ExecutionStarted:
    return stored.ExecutionStarted(
        execution_id=execution_id(session_id, 1),
        ordinal=1,
        segment=1,
        worker="",
        input=given,
        agent=_UNKNOWN_AGENT,
        by="user",
        library=VERSION,
    )


def _decided(
    document: Reader, status: ExecutionStatus, step: int, *, is_needed: bool
) -> stored.ContinuationEvaluated | None:
    """Return the last decision that the document tells of, or one that must have been taken."""
    if not document.has("last_continuation") and status not in _FINISHED and not is_needed:
        return None
    said = document.object("last_continuation")
    goes_on = status not in _FINISHED and said.truth("should_continue", default=True)
    usual = StopReason.ERROR if status is ExecutionStatus.FAILED else StopReason.COMPLETED
    reason = said.one_of("stop_reason", StopReason) if said.has("stop_reason") else usual
    if goes_on:
        decision = ContinuationDecision.REQUEST
    else:
        decision = ContinuationDecision.STOP if reason is StopReason.COMPLETED else ContinuationDecision.FORBID
    return stored.ContinuationEvaluated(
        step=step,
        decision=decision,
        should_continue=goes_on,
        resolved_by=said.text("resolved_by", AGGREGATE),
        stop_reason=reason,
        answered=not goes_on and said.truth("answered", default=False),
    )


def _usage(usage: Reader) -> BilledUsage:
    return BilledUsage(
        input=usage.count("input"),
        output=usage.count("output"),
        cache_write=usage.count("cacheWrite"),
        cache_read=usage.count("cacheRead"),
        reasoning=usage.count("reasoning"),
    )


def _session(document: Reader, key: str) -> str:
    text = document.text(key)
    try:
        return checked_session_id(text)
    except ConfigurationError as error:
        raise InvalidStateData(key, "the id of a session") from error
