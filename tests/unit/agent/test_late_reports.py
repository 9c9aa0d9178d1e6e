"""What a worker that has lost its session may still report, and whose events are a sign of the owner's life."""

import pytest

from steptrail.domain.agent.events import (
    AgentEvent,
    MessagesAppended,
    PauseRequested,
    StepStarted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
)
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.machine import CallInFlight
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import CutBy
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.testing.scenario import START, given
from tests.unit.agent.story import BOOM, decided, opened

CALL = CallInFlight("s:1:1:0", attempt=2)
BILL = BilledUsage.of(Usage(input=1), [ModelUsage(asked_for="m", usage=Usage(input=1))])
LATER = START + 60_000_000


def test_a_late_result_says_which_call_which_try_and_which_segment_made_it() -> None:
    ended = ToolExecutionCompleted(position=0, result="42", shown_characters=9, usage=BILL, duration_seconds=0.0)
    assert AGENT.settle_late(ended, CALL, 3) == ToolExecutionSettledLate(
        effect_id="s:1:1:0", attempt=2, segment=3, result="42", shown_characters=9, usage=BILL
    )


def test_a_late_failure_says_the_same_and_its_error() -> None:
    ended = ToolExecutionFailed(position=0, error=BOOM, usage=BILL, duration_seconds=0.0)
    assert AGENT.settle_late(ended, CALL, 3) == ToolExecutionSettledLate(
        effect_id="s:1:1:0", attempt=2, segment=3, error=BOOM, usage=BILL
    )


def test_a_late_report_of_a_call_that_its_timeout_cut_says_so() -> None:
    cut = ToolExecutionFailed(position=0, error=BOOM, cut_by=CutBy.TOOL_TIMEOUT, duration_seconds=5.0)
    assert AGENT.settle_late(cut, CALL, 3) == ToolExecutionSettledLate(
        effect_id="s:1:1:0", attempt=2, segment=3, error=BOOM, cut_by=CutBy.TOOL_TIMEOUT
    )


def test_nothing_else_is_reported_late() -> None:
    assert AGENT.settle_late(PauseRequested(by="ops"), CALL, 3) is None


INPUT = MessagesAppended(messages=(Message.user("More."),), by="user")
SAID_BY_A_HOOK = MessagesAppended(messages=(Message.user("More."),), source=MessageSource.HOOK, by="notes")


@pytest.mark.parametrize(
    ("event", "is_a_sign"),
    [(PauseRequested(by="ops"), False), (INPUT, False), (SAID_BY_A_HOOK, True)],
    ids=["a command", "a message of a user", "a message of a hook"],
)
def test_only_what_the_owner_writes_shows_that_it_lives(event: AgentEvent, *, is_a_sign: bool) -> None:
    running = given(*opened(), StepStarted(number=1))
    seen = running.state.fold.seen_at
    after = running.at(LATER, event).state
    assert (after.fold.updated_at, after.fold.seen_at) == (LATER, LATER if is_a_sign else seen)


def test_a_decision_to_try_again_is_no_retry_where_there_is_no_step() -> None:
    assert given(*opened(), decided(0, retries=True)).state.retry_is_granted is False
