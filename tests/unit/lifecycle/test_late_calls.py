"""A call that a fenced worker settles late has ended once, whoever speaks of it afterwards."""

from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    SessionStarted,
    StepStarted,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ToolEffect
from steptrail.domain.version import VERSION
from steptrail.lifecycle import ToolCallCompleted, lifecycle_events
from steptrail.testing import call
from tests.runner.kit import NOON
from tests.unit.agent.story import AGENT, HELLO

RUNNING: list[AgentEvent] = [
    SessionStarted(name="a"),
    ExecutionStarted(
        execution_id="s:1", ordinal=1, segment=1, worker="w", input=HELLO, agent=AGENT, by="user", library=VERSION
    ),
    StepStarted(number=1),
    InferenceStarted(step=1, model="m", request_digest="d", message_count=1),
    InferenceCompleted(reply=call("look", what="tea"), duration_seconds=1.0),
    ToolExecutionStarted(
        position=0, call_id="call-1", tool="look", effect_id="e", effect=ToolEffect.UNSAFE, arguments_digest="d"
    ),
    ExecutionResumed(
        segment=2,
        worker="w2",
        ended_by=SegmentEnd.TAKE_OVER,
        was_productive=True,
        by="user",
        interrupted_seconds=0.0,
        library=VERSION,
    ),
]
LATE = ToolExecutionSettledLate(effect_id="e", attempt=1, segment=1, result="tea")
CUT = ToolExecutionInterrupted(position=0, reason="crash", then=Then.TELL, duration_seconds=0.0)


def ends(*events: AgentEvent) -> list[tuple[bool, str | None]]:
    records = [Recorded(version, NOON, event) for version, event in enumerate([*RUNNING, *events], 1)]
    told = lifecycle_events("s", records)
    return [(event.success, event.error) for event in told if isinstance(event, ToolCallCompleted)]


def test_what_was_settled_late_is_not_cut_off_afterwards() -> None:
    assert ends(LATE, CUT) == [(True, None)]


def test_what_was_cut_off_is_corrected_by_a_late_word() -> None:
    assert ends(CUT, LATE) == [(False, "cut off: crash"), (True, None)]


def test_a_late_word_about_another_try_or_said_twice_changes_nothing() -> None:
    assert ends(LATE, LATE, structs.replace(LATE, attempt=2)) == [(True, None)]
