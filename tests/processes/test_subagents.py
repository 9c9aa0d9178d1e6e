"""A process is killed while subagents work in it: the next one goes on with them, and nothing is paid for twice."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.parent import session_for_call
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections import RunTree
from steptrail.testing.crash import repeated
from tests.processes.agents.site import SESSION
from tests.processes.stage import COMPLETED, Stage, on_both_stores

T = TypeVar("T")

TOKENS = 15
"""What one model call costs here."""


def ask(stage: Stage, question: Callable[[Steptrail], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with Steptrail.open(stage.url, durability="normal") as trail:
            return await question(trail)

    return asyncio.run(asked())


def tree_of(stage: Stage) -> RunTree:
    return ask(stage, lambda trail: trail.tree(SESSION))


def log_of(stage: Stage, session: str) -> Sequence[Recorded[AgentEvent]]:
    return ask(stage, lambda trail: trail.session(session).events())


def child(position: int) -> str:
    return session_for_call(f"{SESSION}:1:1:{position}")


def sessions(stage: Stage) -> set[str]:
    return {row.session_id for row in ask(stage, lambda trail: trail.runs())}


def kinds(records: Sequence[Recorded[AgentEvent]], kind: type[AgentEvent]) -> int:
    return sum(isinstance(record.event, kind) for record in records)


def has_one_bill(stage: Stage, *, lost: int = 0) -> None:
    """Assert that the provider, the sessions and what the parent was told all say the same.

    `lost` is how many replies had been paid for and were not stored when the process died.
    """
    tree, state = tree_of(stage), stage.session(lambda session: session.state())
    logs = [log_of(stage, each.run.session_id) for _, each in tree.walk()]
    known = sum(kinds(log, InferenceCompleted) for log in logs) * TOKENS
    assert tree.usage.total == state.usage.total == known
    assert stage.ledger.counts()["billed"] * TOKENS == known + lost * TOKENS
    assert [repeated(stage.ledger.entries(), log) for log in logs] == [[] for _ in logs]


@on_both_stores
@pytest.mark.parametrize("children", [1, 3])
def test_killed_while_subagents_work_each_has_one_session_and_the_bill_counts_once(stage: Stage, children: int) -> None:
    killed = stage.start("run", "family", {"children": children})
    # All of them: a reply that was paid for and is not stored yet would be asked for again.
    stage.wait_for_entries("work", children)
    killed.kill()
    stage.end(killed)
    stage.open("tool")

    assert stage.perform("run", "family", {"children": children}).result == COMPLETED

    assert sessions(stage) == {SESSION, *map(child, range(children))}
    for position in range(children):
        log = log_of(stage, child(position))
        assert kinds(log, ExecutionStarted) == 1
        assert kinds(log, InferenceCompleted) == 3
    assert stage.ledger.counts()["done"] == 2 * children
    has_one_bill(stage)


def test_a_subagent_that_kills_its_process_goes_on_in_the_next_with_the_same_effect_id(stage: Stage) -> None:
    stage.open("tool")
    assert stage.perform("run", "family", {"mortal": True}).code == -9
    assert stage.perform("resume", "family").result == COMPLETED
    effects = [entry.effect for entry in stage.ledger.entries() if entry.what == "work"]
    assert effects == [f"{child(0)}:1:1:0", f"{child(0)}:1:1:0", f"{child(0)}:1:2:0"]
    assert [event.attempt for event in stage.of(ToolExecutionStarted)] == [1, 2]
    assert kinds(log_of(stage, child(0)), ExecutionResumed) == 1
    has_one_bill(stage)


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        *((f"after-append:{number}", 0) for number in (2, 3, 5, 7, 9)),
        ("before-append:8", 1),
        ("before-inference:2", 0),
        ("after-inference:2", 1),
        ("before-tool:2", 0),
        ("after-tool:1", 0),
        ("after-tool:3", 0),
        ("after-release:1", 0),
    ],
)
def test_wherever_the_kill_falls_in_the_tree_the_bill_is_what_was_paid(stage: Stage, fault: str, lost: int) -> None:
    stage.open("tool")
    assert stage.perform("run", "family", fault=fault).code == -9
    assert stage.perform("run", "family").result == COMPLETED
    assert sessions(stage) == {SESSION, child(0)}
    has_one_bill(stage, lost=lost)


def test_a_subagent_whose_owner_was_killed_is_stopped_with_its_parent_by_a_process_without_either_agent(
    stage: Stage,
) -> None:
    killed = stage.start("run", "family")
    stage.wait_for("tool")
    killed.kill()
    stage.end(killed)
    stopped = stage.session(lambda session: session.stop(by="ops"))
    assert (stopped.status, stopped.stop_reason) == ("completed", "user_requested")
    below = ask(stage, lambda trail: trail.session(child(0)).state())
    assert (below.status, below.stop_reason, below.stop_request and below.stop_request.by) == (
        "completed",
        "user_requested",
        "ops",
    )


@on_both_stores
def test_whoever_takes_a_run_over_from_a_stalled_owner_takes_its_subagents_over(stage: Stage) -> None:
    stalled = stage.start("run", "family")
    stage.wait_for("tool")
    os.kill(stalled.pid, signal.SIGSTOP)
    stage.open("tool")
    taken = stage.perform("take-over", "family")
    os.kill(stalled.pid, signal.SIGCONT)
    assert stage.end(stalled).said == {"refused": "OwnershipLost"}
    assert taken.result == COMPLETED
    assert sessions(stage) == {SESSION, child(0)}
    assert stage.session(lambda session: session.state()).usage.total == (tree_of(stage)).usage.total == 5 * TOKENS
    assert stage.ledger.counts()["billed"] == 5
