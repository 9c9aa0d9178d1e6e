"""The auditor of logs finds what it looks for: every kind of harm, forged, is counted, and nothing else."""

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionPaused,
    MessagesAppended,
    PauseRequested,
    SessionStarted,
    StepStarted,
    StopRequested,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.kernel.record import CommitHead, Recorded
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolEffect
from steptrail.testing.crash import LedgerEntry
from tests.harness.log_audit import LogAudit, audit_log
from tests.unit.agent.story import resumed, started

CALLED = ToolExecutionStarted(
    position=0, call_id="c", tool="pay", effect_id="e1", effect=ToolEffect.UNSAFE, arguments_digest="d"
)
DEFERRED = ToolCallDeferred(position=0, call_id="c", tool="know", effect_id="e1", arguments_digest="d", expires_at=1)
TOLD_SO = ToolExecutionCompleted(position=0, result="left", duration_seconds=0.0, settled_by="ana")
ASKED = ApprovalRequested(approval_id="e1", position=0, tool="pay", arguments_digest="d", expires_at=1, asked_by="pay")
OTHER = structs.replace(ASKED, approval_id="e2", position=1)
GRANTED, DENIED = ApprovalGranted(approval_id="e1", by="ana"), ApprovalDenied(approval_id="e1", by="bob")
SAID = MessagesAppended(messages=(Message.user("And now?"),), by="user")
PAUSED, STOPPED = PauseRequested(by="ops"), StopRequested(by="ops")


def found(events: list[tuple[int, AgentEvent]], *entries: tuple[str, str]) -> LogAudit:
    """Audit a log of these events, each with the segment that wrote it, 0 for a command."""
    records = [
        Recorded(version, 0, event, CommitHead(commit_id=f"c{version}", actor="a", segment=segment))
        for version, (segment, event) in enumerate(events, 1)
    ]
    return audit_log(records, [LedgerEntry(what, effect, 1) for what, effect in entries])


BEGUN: list[tuple[int, AgentEvent]] = [(1, SessionStarted(name="a")), (1, started()), (1, StepStarted(number=1))]
SOUND: list[tuple[int, AgentEvent]] = [
    *BEGUN,
    (1, ASKED),
    (0, GRANTED),
    (0, SAID),
    (2, resumed(2)),
    (2, CALLED),
    (0, PAUSED),
    (2, ToolExecutionCompleted(position=0, duration_seconds=0.0)),
    (2, ExecutionPaused(by="ops", step_seconds=0.0)),
    (3, resumed(3)),
    (3, StepStarted(number=2)),
    (2, ToolExecutionSettledLate(effect_id="e1", attempt=1, segment=2)),
    (0, STOPPED),
]
TOLD = [("began", "e1"), ("answered", "e1"), ("said", "And now?"), ("asked", "stop"), ("asked", "pause")]


def test_a_sound_log_has_nothing_wrong() -> None:
    assert found(SOUND, *TOLD) == LogAudit()


@pytest.mark.parametrize(
    ("events", "entries", "expected"),
    [
        ([*BEGUN, (2, resumed(2)), (2, resumed(2))], [], LogAudit(owned_at_once=1)),
        ([*BEGUN, (2, resumed(2)), (1, CALLED)], [("began", "e1")], LogAudit(owned_at_once=1)),
        ([*BEGUN, (1, CALLED)], [("began", "e1"), ("began", "e1")], LogAudit(starts_missing=1)),
        ([*BEGUN, (1, ASKED), (0, GRANTED), (0, DENIED)], [], LogAudit(answered_twice=1)),
        ([*BEGUN, (1, ASKED), (0, GRANTED)], [("answered", "e1")] * 2, LogAudit(answered_twice=1)),
        ([*BEGUN, (1, DEFERRED), (0, TOLD_SO)], [("answered", "e1")], LogAudit()),
        ([*BEGUN, (1, DEFERRED), (0, TOLD_SO), (0, TOLD_SO)], [], LogAudit(answered_twice=1)),
        ([*BEGUN, (1, DEFERRED), (2, resumed(2)), (2, DEFERRED)], [], LogAudit(asked_twice=1)),
        ([*BEGUN, (1, DEFERRED)], [("answered", "e1")], LogAudit(answers_lost=1)),
        ([*BEGUN, (0, STOPPED), (1, DEFERRED)], [], LogAudit(commands_ignored=1)),
        ([*BEGUN, (1, ASKED), (0, DENIED), (1, CALLED)], [], LogAudit(unapproved=1)),
        ([*BEGUN, (1, ASKED), (1, OTHER), (0, GRANTED), (1, CALLED)], [], LogAudit(unapproved=1)),
        (BEGUN, [("said", "And now?")], LogAudit(sends_lost=1)),
        ([*BEGUN, (0, SAID), (0, SAID)], [("said", "And now?")], LogAudit(sends_lost=1)),
        ([*BEGUN, (0, STOPPED), (1, CALLED)], [], LogAudit(commands_ignored=1)),
        ([*BEGUN, (0, STOPPED), (2, resumed(2)), (2, CALLED)], [], LogAudit(commands_ignored=1)),
        ([*BEGUN, (0, PAUSED), (1, StepStarted(number=2))], [], LogAudit(commands_ignored=1)),
        (BEGUN, [("asked", "stop")], LogAudit(commands_ignored=1)),
    ],
)
def test_what_is_broken_is_counted_where_it_belongs(
    events: list[tuple[int, AgentEvent]], entries: list[tuple[str, str]], expected: LogAudit
) -> None:
    assert found(events, *entries) == expected
