"""The decisions of a run, as rows that two runs can be compared by: each decision, each tool call, and the ending.

Times, workers and the marks of a crash are left out: two runs that decided alike have equal rows.
"""

from collections.abc import Iterable
from typing import NamedTuple

from steptrail.domain.agent import events as stored
from steptrail.domain.kernel.record import Recorded


class DecisionRow(NamedTuple):
    """One decision: after which step, whether the run went on, by whom, and why it stopped if it did."""

    step: int
    goes_on: bool
    resolved_by: str
    stop_reason: str | None


class CallRow(NamedTuple):
    """One tool call that was run: in which step, the digest of its arguments, and how its last try ended."""

    step: int
    tool: str
    arguments_digest: str
    ending: str


class EndRow(NamedTuple):
    """How an execution ended."""

    status: str
    stop_reason: str
    resolved_by: str
    answered: bool


class Decisions(NamedTuple):
    """The rows of a session, in order."""

    decisions: tuple[DecisionRow, ...]
    calls: tuple[CallRow, ...]
    endings: tuple[EndRow, ...]


_ENDINGS = {
    stored.ToolExecutionCompleted: "completed",
    stored.ToolExecutionFailed: "failed",
    stored.ToolExecutionInterrupted: "interrupted",
    stored.ToolExecutionSuspended: "suspended",
}


def project_decisions(records: Iterable[Recorded[stored.AgentEvent]]) -> Decisions:
    """Return what was decided. A resume that let the run go on is no row: it tells of a process, not of the run."""
    decisions: list[DecisionRow] = []
    calls: dict[str, CallRow] = {}
    endings: list[EndRow] = []
    open_calls: dict[int, str] = {}
    for record in records:
        event = record.event
        match event:
            case stored.ContinuationEvaluated() if not (event.phase == "resume" and event.should_continue):
                reason = None if event.should_continue else event.stop_reason.value
                decisions.append(DecisionRow(event.step, event.should_continue, event.resolved_by, reason))
            case stored.ToolExecutionStarted() | stored.ToolCallDeferred():
                step = int(event.effect_id.rsplit(":", 2)[1])
                open_calls[event.position] = event.effect_id
                calls[event.effect_id] = CallRow(step, event.tool, event.arguments_digest, "open")
            case (
                stored.ToolExecutionCompleted()
                | stored.ToolExecutionFailed()
                | stored.ToolExecutionInterrupted()
                | stored.ToolExecutionSuspended()
            ) if (effect := open_calls.get(event.position)) is not None:
                calls[effect] = calls[effect]._replace(ending=_ENDINGS[type(event)])
            case stored.StepCompleted():
                open_calls.clear()
            case stored.ExecutionFinished():
                endings.append(EndRow(event.status.value, event.stop_reason.value, event.resolved_by, event.answered))
            case _:
                pass
    # Calls of one step may start in any order; their places in the reply do not depend on it.
    ordered = sorted(calls.items(), key=lambda item: [int(part) for part in item[0].rsplit(":", 3)[1:]])
    return Decisions(tuple(decisions), tuple(row for _, row in ordered), tuple(endings))
