"""Who runs a session, and what is left to say for somebody who ran it."""

import os
import signal
import time

from steptrail.domain.agent.events import (
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from tests.processes.stage import COMPLETED, Stage, on_both_stores


def said_by_the_old_owner(stage: Stage) -> list[str]:
    """Return the types of the events that segment 1 appended after it had been taken over."""
    records = stage.records()
    taken = next(i for i, record in enumerate(records) if isinstance(record.event, ExecutionResumed))
    return [record.event.TYPE for record in records[taken:] if record.head is not None and record.head.segment == 1]


@on_both_stores
def test_of_two_processes_that_run_a_session_at_once_one_is_refused_before_it_does_anything(stage: Stage) -> None:
    both = [stage.start("run", "gated_tool"), stage.start("run", "gated_tool")]
    stage.wait_for("tool")
    # The one that is inside the tool cannot end before the gate is open.
    while (loser := next((each for each in both if each.poll() is not None), None)) is None:
        time.sleep(0.01)
    refused = stage.end(loser)
    stage.open("tool")
    winner = next(each for each in both if each is not loser)
    went_on = stage.end(winner)
    assert refused.said == {"refused": "SessionBusy"}
    assert went_on.result == COMPLETED
    assert {entry.pid for entry in stage.ledger.entries()} == {winner.pid}
    assert len(stage.of(ExecutionStarted)) == 1
    assert stage.of(ExecutionResumed) == []


@on_both_stores
def test_a_resume_of_a_session_that_is_being_run_is_refused(stage: Stage) -> None:
    owner = stage.start("run", "gated_tool")
    stage.wait_for("tool")
    refused = stage.perform("resume", "gated_tool")
    stage.open("tool")
    assert refused.said == {"refused": "SessionBusy"}
    assert stage.end(owner).result == COMPLETED


@on_both_stores
def test_a_stalled_owner_wakes_after_a_take_over_and_only_says_what_its_tool_did(stage: Stage) -> None:
    stalled = stage.start("run", "gated_tool")
    stage.wait_for("tool")
    os.kill(stalled.pid, signal.SIGSTOP)
    taken = stage.perform("take-over", "gated_tool")
    before = stage.session(lambda session: session.state())
    stage.open("tool")
    os.kill(stalled.pid, signal.SIGCONT)
    woken = stage.end(stalled)

    assert taken.result == COMPLETED
    assert woken.said == {"refused": "OwnershipLost"}
    assert said_by_the_old_owner(stage) == ["tool.execution.settled_late.v1"]
    assert stage.of(ToolExecutionSettledLate)[0].result == "slow is done"
    assert [event.tool for event in stage.of(ToolExecutionStarted)] == ["slow", "after"]
    # The session had finished without it: what was learnt late is evidence, and changes nothing.
    after = stage.session(lambda session: session.state())
    assert (after.status, after.output, list(after.messages)) == (before.status, before.output, list(before.messages))


@on_both_stores
def test_what_a_stalled_owner_reports_closes_a_call_that_is_still_in_doubt(stage: Stage) -> None:
    stalled = stage.start("run", "gated_tool", {"on_unknown": "park"})
    stage.wait_for("tool")
    os.kill(stalled.pid, signal.SIGSTOP)
    taken = stage.perform("take-over", "gated_tool", {"on_unknown": "park"})
    assert taken.result == ("waiting", None, None)
    stage.open("tool")
    os.kill(stalled.pid, signal.SIGCONT)
    assert stage.end(stalled).said == {"refused": "OwnershipLost"}

    resumed = stage.perform("resume", "gated_tool", {"on_unknown": "park"})
    assert resumed.result == COMPLETED
    assert stage.ledger.counts() == {"slow": 1, "after": 1, "done": 2}
    shown = stage.session(lambda session: session.state()).steps[0].tool_executions[0].text
    assert shown == "slow is done"


@on_both_stores
def test_a_stalled_owner_that_wakes_in_a_model_call_says_nothing(stage: Stage) -> None:
    stalled = stage.start("run", "gated_model")
    stage.wait_for("model-0")
    os.kill(stalled.pid, signal.SIGSTOP)
    for gate in ("model-0", "model-1"):
        stage.open(gate)
    taken = stage.perform("take-over", "gated_model")
    os.kill(stalled.pid, signal.SIGCONT)
    assert stage.end(stalled).said == {"refused": "OwnershipLost"}
    assert taken.result == COMPLETED
    assert said_by_the_old_owner(stage) == []
    assert len(stage.of(InferenceCompleted)) == 2
    assert stage.ledger.counts() == {"first": 1, "done": 1}
