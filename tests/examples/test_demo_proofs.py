"""The demo's proofs can fail: each is shown a history in which its claim does not hold."""

from collections.abc import Sequence

import pytest

from ledger import Line
from proofs import Moment, Proof, nothing_twice, of_the_limit, of_the_order, of_the_questions
from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionFinished,
    InferenceCompleted,
    ToolExecutionCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import ToolEffect
from steptrail.testing import calls

TOOLS = ("reserve", "charge", "notify")


def asked() -> InferenceCompleted:
    return InferenceCompleted(reply=calls(("reserve", {}), ("charge", {}), ("notify", {})), duration_seconds=0.1)


def started(at: int, attempt: int = 1) -> ToolExecutionStarted:
    return ToolExecutionStarted(
        position=at,
        call_id=f"call-{at}",
        tool=TOOLS[at],
        effect_id=f"s:1:1:{at}",
        effect=ToolEffect.KEYED,
        attempt=attempt,
        arguments_digest="",
    )


def completed(at: int) -> ToolExecutionCompleted:
    return ToolExecutionCompleted(position=at, result="done", duration_seconds=0.0)


def finished(reason: StopReason) -> ExecutionFinished:
    return ExecutionFinished(status=ExecutionStatus.COMPLETED, stop_reason=reason, resolved_by="somebody")


def ran(at: int, attempt: int = 1) -> Line:
    return Line(f"s:1:1:{at}", attempt, TOOLS[at], pid=1)


def moment(events: Sequence[AgentEvent], lines: Sequence[Line]) -> Moment:
    return Moment([Recorded(version, version, event) for version, event in enumerate(events, 1)], lines)


def failing(proofs: Sequence[Proof]) -> list[str]:
    return [proof.claim for proof in proofs if not proof.holds]


ANNOUNCED = "Every run in the ledger was in the log first, and no attempt ran twice"
RESULTS = "Every result in the log comes from a tool that ran, and stands there once"

KILLED_EVENTS: list[AgentEvent] = [asked(), started(0), completed(0), started(1)]
KILLED_LINES = [ran(0), ran(1)]
KILLED = moment(KILLED_EVENTS, KILLED_LINES)
ENDED_EVENTS: list[AgentEvent] = [*KILLED_EVENTS, started(1, 2), completed(1), started(2), completed(2)]
ENDED_LINES = [*KILLED_LINES, ran(1, 2), ran(2)]


def test_a_run_that_repeated_nothing_bears_every_claim_out() -> None:
    ended = moment(ENDED_EVENTS, ENDED_LINES)
    assert failing([*nothing_twice(KILLED, ended), *of_the_order(KILLED, ended, payments=1)]) == []


@pytest.mark.parametrize(
    ("events", "lines", "claim"),
    [
        (ENDED_EVENTS, [*ENDED_LINES, ran(0)], "No tool that had finished before the kill ran again"),
        (
            ENDED_EVENTS,
            [*ENDED_LINES, ran(2)],
            "Every run in the ledger was in the log first, and no attempt ran twice",
        ),
        (
            ENDED_EVENTS,
            [*ENDED_LINES, ran(2, 2)],
            "Every run in the ledger was in the log first, and no attempt ran twice",
        ),
        (ENDED_EVENTS, ENDED_LINES[:-1], RESULTS),
        ([*ENDED_EVENTS, completed(2)], ENDED_LINES, RESULTS),
        ([asked(), *ENDED_EVENTS], ENDED_LINES, "The kill took nothing from the log"),
    ],
)
def test_a_tool_that_ran_again_or_a_log_that_lost_something_is_seen(
    events: Sequence[AgentEvent], lines: Sequence[Line], claim: str
) -> None:
    assert claim in failing(nothing_twice(KILLED, moment(events, lines)))


@pytest.mark.parametrize(
    ("at_the_kill", "lines", "payments", "claim"),
    [
        (moment(KILLED_EVENTS[:2], [ran(0)]), ENDED_LINES, 1, "The kill hit the second of three tools"),
        (KILLED, [*ENDED_LINES, ran(0, 2)], 1, "Tool 1, unsafe and finished, was not repeated"),
        (KILLED, ENDED_LINES, 2, "Tool 2, keyed, ran again with the same effect id, and the bank paid once"),
        (KILLED, ENDED_LINES[:-1], 1, "Tool 3 ran once"),
    ],
)
def test_an_order_that_went_otherwise_is_seen(
    at_the_kill: Moment, lines: Sequence[Line], payments: int, claim: str
) -> None:
    assert claim in failing(of_the_order(at_the_kill, moment(ENDED_EVENTS, lines), payments))


def ended(reason: StopReason) -> Moment:
    events: list[AgentEvent] = [*ENDED_EVENTS, finished(reason)]
    return moment(events, ENDED_LINES)


def only_finished(reason: StopReason) -> Moment:
    events: list[AgentEvent] = [finished(reason)]
    return moment(events, [])


def test_a_question_without_an_answer_is_seen() -> None:
    answered = ended(StopReason.COMPLETED)
    stopped = ended(StopReason.STEPS_LIMIT)
    assert failing(of_the_questions(answered, ["a"])) == []
    assert failing(of_the_questions(answered, ["a", "b"])) != []
    assert failing(of_the_questions(stopped, ["a"])) != []


def test_a_run_that_ended_for_another_reason_than_its_limit_is_seen() -> None:
    assert failing(of_the_limit(only_finished(StopReason.STEPS_LIMIT).records, limit=0)) == []
    assert failing(of_the_limit(only_finished(StopReason.STEPS_LIMIT).records, limit=1)) != []
    assert failing(of_the_limit(only_finished(StopReason.COMPLETED).records, limit=0)) != []
