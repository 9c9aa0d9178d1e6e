"""Promises about one session that its log and a ledger alone can show broken, whatever processes did to it.

The ledger is written by those who took part: a tool that begins writes `began <effect id>`, who was told that something
is stored writes `answered <approval or effect id>`, `said <text>`, `asked stop` or `asked pause`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    InferenceStarted,
    MessagesAppended,
    PauseLifted,
    PauseRequested,
    SessionStarted,
    StepCompleted,
    StepStarted,
    StopRequested,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.testing.crash import LedgerEntry

_STARTS = (StepStarted, InferenceStarted, ToolCallDeferred, ToolExecutionStarted)
_REQUESTS = {"stop": StopRequested, "pause": PauseRequested}


@dataclass(frozen=True, slots=True)
class LogAudit:
    """How often each promise was broken; all are zero unless one was.

    `owned_at_once`: segments that were opened out of turn, and events of a segment that had been taken over, but for
    late reports of its calls. `starts_missing`: tool calls that began more often than the log has started them.
    `asked_twice`: external calls that were asked for more than once. `answered_twice`: approvals and external calls
    with more than one answer in the log, or accepted of more than one person. `answers_lost`: those of which somebody
    was told that an answer is stored, and that have none. `unapproved`: calls that started without the yes that was
    asked for, or while a question of their reply was open.
    `sends_lost`: messages that somebody was told are stored, and that are not there once. `commands_ignored`: steps,
    model calls and tools that were started after a stop or a pause was stored, and stops and pauses that somebody was
    told are stored and that are not there.
    """

    owned_at_once: int = 0
    starts_missing: int = 0
    asked_twice: int = 0
    answered_twice: int = 0
    answers_lost: int = 0
    unapproved: int = 0
    sends_lost: int = 0
    commands_ignored: int = 0

    @property
    def broken(self) -> int:
        """How often any promise was broken."""
        return sum(astuple(self))

    def __add__(self, other: "LogAudit") -> "LogAudit":
        return LogAudit(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))


def audit_log(records: Sequence[Recorded[AgentEvent]], entries: Sequence[LedgerEntry]) -> LogAudit:
    """Hold the whole log of a session against the ledger of everybody who took part in it."""
    began = Counter(entry.effect for entry in entries if entry.what == "began")
    started = Counter(r.event.effect_id for r in records if isinstance(r.event, ToolExecutionStarted))
    asked = Counter(r.event.effect_id for r in records if isinstance(r.event, ToolCallDeferred))
    answers = Counter(_answers(records))
    accepted = Counter(entry.effect for entry in entries if entry.what == "answered")
    heard = Counter(_heard(records))
    return LogAudit(
        owned_at_once=_owned_at_once(records),
        starts_missing=(began - started).total(),
        asked_twice=asked.total() - len(asked),
        answered_twice=sum(times > 1 for times in (answers | accepted).values()),
        answers_lost=len(accepted.keys() - answers.keys()),
        unapproved=_unapproved(records),
        sends_lost=sum(entry.what == "said" and heard[entry.effect] != 1 for entry in entries),
        commands_ignored=_started_in_spite(records) + _never_stored(records, entries),
    )


def _owned_at_once(records: Sequence[Recorded[AgentEvent]]) -> int:
    segment = count = 0
    for record in records:
        written_in = record.head.segment if record.head is not None else 0
        match record.event:
            case ExecutionStarted(worker=None):
                count += record.event.segment != segment
            case ExecutionStarted(segment=opened) | ExecutionResumed(segment=opened):
                count += opened != segment + 1
                segment = opened
            case SessionStarted() | ToolExecutionSettledLate():
                continue
            case _:
                count += written_in not in {0, segment}
    return count


def _answers(records: Sequence[Recorded[AgentEvent]]) -> Iterator[str]:
    deferred = dict[int, str]()
    for record in records:
        match record.event:
            case StepStarted():
                deferred.clear()
            case ToolCallDeferred(position=position, effect_id=effect):
                deferred[position] = effect
            case ApprovalGranted(approval_id=approval) | ApprovalDenied(approval_id=approval):
                yield approval
            case ToolExecutionCompleted(settled_by=str()) | ToolExecutionFailed(settled_by=str()) as event:
                if event.position in deferred:
                    yield deferred[event.position]
            case _:
                continue


def _unapproved(records: Sequence[Recorded[AgentEvent]]) -> int:
    asked, granted, still_open, count = set[str](), set[str](), set[str](), 0
    for record in records:
        match record.event:
            case ApprovalRequested(approval_id=approval):
                asked.add(approval)
                still_open.add(approval)
            case ApprovalGranted(approval_id=approval):
                granted.add(approval)
                still_open.discard(approval)
            case ApprovalDenied(approval_id=approval) | ApprovalExpired(approval_id=approval):
                still_open.discard(approval)
            case StepCompleted():
                still_open.clear()
            case ToolExecutionStarted(effect_id=effect):
                count += bool(still_open) or (effect in asked and effect not in granted)
            case _:
                continue
    return count


def _started_in_spite(records: Sequence[Recorded[AgentEvent]]) -> int:
    to_stop = to_pause = False
    count = 0
    for record in records:
        match record.event:
            case StopRequested():
                to_stop = True
            case PauseRequested():
                to_pause = True
            case ExecutionFinished():
                to_stop = to_pause = False
            case ExecutionPaused() | ExecutionResumed() | PauseLifted():
                to_pause = False
            case event if isinstance(event, _STARTS):
                count += to_stop or to_pause
            case _:
                continue
    return count


def _never_stored(records: Sequence[Recorded[AgentEvent]], entries: Sequence[LedgerEntry]) -> int:
    # Who asks for what somebody has asked for already is told so, and stores nothing: so only whether it is there.
    asked = {entry.effect for entry in entries if entry.what == "asked"}
    there = {word for word, kind in _REQUESTS.items() if any(isinstance(record.event, kind) for record in records)}
    return len(asked - there)


def _heard(records: Sequence[Recorded[AgentEvent]]) -> Iterator[str]:
    for record in records:
        match record.event:
            case ExecutionStarted(input=message) if message is not None:
                yield message.text
            case MessagesAppended(messages=messages):
                yield from (message.text for message in messages)
            case _:
                continue
