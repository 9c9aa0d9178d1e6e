"""A process is killed while the second of three tools runs: its declared effect says what becomes of it."""

import pytest

from steptrail.domain.agent.commands import Verdict
from steptrail.domain.agent.events import (
    ExecutionResumed,
    StepCompleted,
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.messages import ToolResultPart
from steptrail.testing.crash import repeated
from tests.processes.stage import COMPLETED, Stage

SECOND = "s1:1:1:1"
"""The effect id of the second tool: session, execution, step, position."""


def killed_in_the_second(stage: Stage, effect: str, on_unknown: str = "tell") -> None:
    ended = stage.perform("run", "triple", {"effect": effect, "on_unknown": on_unknown})
    assert ended.code == -9
    assert [event.tool for event in stage.of(ToolExecutionStarted)] == ["first", "second"]


def answers(stage: Stage) -> dict[str, str]:
    """Return what the model was shown of each tool."""
    state = stage.session(lambda session: session.state())
    parts = [part for message in state.messages for part in message.parts if isinstance(part, ToolResultPart)]
    return {part.name: part.text for part in parts}


@pytest.mark.parametrize("effect", ["read", "idempotent", "keyed"])
def test_a_tool_that_may_run_again_does_with_the_same_effect_id(stage: Stage, effect: str) -> None:
    killed_in_the_second(stage, effect)
    resumed = stage.perform("resume", "triple", {"effect": effect})
    assert resumed.result == COMPLETED
    entries = [entry for entry in stage.ledger.entries() if entry.what != "done"]
    assert [entry.what for entry in entries] == ["first", "second", "second", "third"]
    assert {entry.effect for entry in entries if entry.what == "second"} == {SECOND}
    assert [event.attempt for event in stage.of(ToolExecutionStarted) if event.tool == "second"] == [1, 2]
    assert repeated(stage.ledger.entries(), stage.records()) == []


def test_the_model_is_told_that_the_outcome_of_an_unsafe_tool_is_unknown(stage: Stage) -> None:
    killed_in_the_second(stage, "unsafe", "tell")
    resumed = stage.perform("resume", "triple", {"effect": "unsafe", "on_unknown": "tell"})
    assert resumed.result == COMPLETED
    assert stage.ledger.counts() == {"first": 1, "second": 1, "third": 1, "done": 2}
    assert "unknown" in answers(stage)["second"]
    assert [event.errors for event in stage.of(StepCompleted)] == [0, 0]


def test_an_unknown_outcome_can_be_a_failure_for_the_policy(stage: Stage) -> None:
    killed_in_the_second(stage, "unsafe", "fail")
    resumed = stage.perform("resume", "triple", {"effect": "unsafe", "on_unknown": "fail"})
    assert resumed.result == ("failed", "error", None)
    assert stage.ledger.counts() == {"first": 1, "second": 1, "third": 1, "done": 2}
    assert [event.errors for event in stage.of(StepCompleted)] == [1]


def test_only_the_tool_that_was_running_was_ever_in_doubt(stage: Stage) -> None:
    killed_in_the_second(stage, "unsafe")
    stage.perform("resume", "triple", {"effect": "unsafe"})
    assert [(event.position, event.reason) for event in stage.of(ToolExecutionInterrupted)] == [(1, "crash")]
    assert [event.position for event in stage.of(ToolExecutionCompleted)] == [0, 2]


@pytest.mark.parametrize(
    ("stage", "verdict", "ending", "times", "shown"),
    [
        ("sqlite", "completed", COMPLETED, 1, "paid after all"),
        ("sqlite", "failed", ("failed", "error", None), 1, "Error in tool call: the bank says no"),
        ("sqlite", "rerun", COMPLETED, 2, "second is done"),
        ("sqlite", "tell", COMPLETED, 1, "unknown"),
        ("postgresql", "rerun", COMPLETED, 2, "second is done"),
    ],
    indirect=["stage"],
)
def test_a_parked_call_waits_for_a_person_in_another_process(
    stage: Stage, verdict: Verdict, ending: tuple[str, str, str | None], times: int, shown: str
) -> None:
    killed_in_the_second(stage, "unsafe", "park")
    parked = stage.perform("resume", "triple", {"effect": "unsafe", "on_unknown": "park"})
    assert parked.result == ("waiting", None, None)
    assert stage.ledger.counts()["third"] == 0

    said, why = "paid after all", "the bank says no"
    stage.session(lambda session: session.settle(SECOND, verdict, by="ana", result=said, message=why))
    resumed = stage.perform("resume", "triple", {"effect": "unsafe", "on_unknown": "park"})

    assert resumed.result == ending
    counts = stage.ledger.counts()
    assert (counts["first"], counts["second"], counts["third"]) == (1, times, 1)
    assert shown in answers(stage)["second"]
    assert [event.ended_by.value for event in stage.of(ExecutionResumed)] == ["crash", "wait"]
