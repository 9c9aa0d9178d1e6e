"""What follows when a call or a segment is cut off. It is decided here, and stands in the event from then on.

The fold never asks these functions: a rule that changes does not read an old log differently.
"""

from typing import Literal

from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.events import AgentEvent, InferenceInterrupted, ToolExecutionInterrupted
from steptrail.domain.agent.events.inference import InterruptionReason
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.shared.run import CutBy, SegmentEnd
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage

__all__ = ["Cut", "call_interrupted", "has_tries_left", "model_interrupted", "restated", "was_productive"]

Cut = Literal["crash", "stop", "cancelled"]
"""What cuts a call off beside a deadline."""


def call_interrupted(
    execution: ExecutionFold,
    call: ToolExecution,
    by: Cut | Deadline,
    *,
    seconds: float = 0.0,
    usage: BilledUsage | None = None,
) -> ToolExecutionInterrupted:
    """Return the event of a call that was cut off after so many seconds, with what follows from it."""
    reason, cut_by, deadline = _cut(by)
    then = _what_follows(execution, call, reason, cut_by)
    return ToolExecutionInterrupted(
        position=call.position,
        reason=reason,
        cut_by=cut_by,
        deadline=deadline,
        then=then,
        duration_seconds=seconds,
        usage=usage,
    )


def _cut(by: Cut | Deadline) -> tuple[InterruptionReason, CutBy | None, int | None]:
    """Return why a call was cut off, which time was up, and when that of the run was."""
    if not isinstance(by, Deadline):
        return by, None, None
    return "deadline", by.cut_by, None if by.cut_by is CutBy.TOOL_TIMEOUT else by.at


def _what_follows(
    execution: ExecutionFold, call: ToolExecution, reason: InterruptionReason, cut_by: CutBy | None
) -> Then:
    # A run that is to stop starts nothing again and waits for nobody, and what it did not let end is no failure.
    run_is_over = cut_by not in {None, CutBy.TOOL_TIMEOUT} or reason == "stop"
    if run_is_over or execution.stop_request is not None:
        return Then.TELL
    if reason in {"crash", "cancelled"} and call.effect is not ToolEffect.UNSAFE:
        return Then.RERUN
    spec = execution.agent.tool(call.name)
    return Then(spec.on_unknown) if spec is not None else Then.TELL


def restated(state: AgentState, event: AgentEvent) -> AgentEvent:
    """Return a fact as it is put on top of another state than it was recorded on: what follows is decided anew."""
    execution, calls = state.execution, state.tool_executions
    if not isinstance(event, ToolExecutionInterrupted) or execution is None or event.position >= len(calls):
        return event
    then = _what_follows(execution, calls[event.position], event.reason, event.cut_by)
    return event if then is event.then else event.model_copy(update={"then": then})


def has_tries_left(execution: ExecutionFold, call: ToolExecution) -> bool:
    """Tell whether the call may fail once more and still be tried again, by the rule that is recorded with its tool."""
    spec = execution.agent.tool(call.name)
    return spec is not None and spec.retry is not None and call.failures + 1 < spec.retry.attempts


def model_interrupted(by: Cut | Deadline) -> InferenceInterrupted:
    """Return the event of a model call that was cut off. A stop and the run's deadline leave no time for another."""
    reason, cut_by, deadline = _cut(by)
    is_given_up = reason in {"stop", "deadline"}
    return InferenceInterrupted(reason=reason, is_given_up=is_given_up, cut_by=cut_by, deadline=deadline)


def was_productive(state: AgentState, ended_by: SegmentEnd) -> bool:
    """Tell whether the segment that has ended so is no sign of a run that keeps killing its process.

    It is none when something was achieved in it, when it ended in good order, and when it ended inside a call that runs
    an agent: what was achieved stands in that agent's own session, and so does the guard.
    """
    execution = state.execution
    if execution is None or execution.productive or ended_by in {SegmentEnd.PAUSE, SegmentEnd.WAIT}:
        return True
    running = (call.name for call in state.tool_executions if call.status is CallStatus.RUNNING)
    return any(spec.runs_children is not None for name in running if (spec := execution.agent.tool(name)) is not None)
