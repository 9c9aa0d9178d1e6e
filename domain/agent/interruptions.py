"""Decides what follows when a call or a segment is cut off. The decision is recorded in the event.

The fold does not call these functions, so a change of a rule never changes the meaning of an old log.
"""

from typing import Literal

from msgspec import structs

from steptrail.domain.agent.call_phases import CallPhase
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

Cut = Literal["crash", "stop", "cancelled"]
"""The causes, beside a deadline, by which a call is cut off."""


def call_interrupted(
    execution: ExecutionFold,
    call: ToolExecution,
    by: Cut | Deadline,
    *,
    seconds: float = 0.0,
    usage: BilledUsage | None = None,
) -> ToolExecutionInterrupted:
    """Return the event of a call that was cut off after so many seconds, with the decision what follows."""
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
    """Return the reason of a cut, the time limit if one made it, and the instant of a deadline of the run."""
    if not isinstance(by, Deadline):
        return by, None, None
    return "deadline", by.cut_by, None if by.cut_by is CutBy.TOOL_TIMEOUT else by.at


def _what_follows(
    execution: ExecutionFold, call: ToolExecution, reason: InterruptionReason, cut_by: CutBy | None
) -> Then:
    # A run that is to stop does not start the call again and waits for no person. The cut is no failure of the call.
    run_is_over = cut_by not in {None, CutBy.TOOL_TIMEOUT} or reason == "stop"
    if run_is_over or execution.stop_request is not None:
        return Then.TELL
    if reason in {"crash", "cancelled"} and call.effect is not ToolEffect.UNSAFE:
        return Then.RERUN
    spec = execution.agent.tool(call.name)
    return Then((spec or call).on_unknown)


def forgone(state: AgentState) -> tuple[ToolExecutionInterrupted, ...]:
    """Return the events of calls that are recorded as begun and were not, when the owner leaves and all others ended.

    Nothing of them is unknown, so each runs another time, whatever its effect.
    """
    return tuple(
        ToolExecutionInterrupted(position=call.position, reason="cancelled", then=Then.RERUN, duration_seconds=0.0)
        for call in state.tool_executions
        if call.phase is CallPhase.RUNNING
    )


def runs_again(execution: ExecutionFold, call: ToolExecution) -> bool:
    """Tell whether a call that a crash cut off starts again with the next segment."""
    return call.phase is CallPhase.RUNNING and _what_follows(execution, call, "crash", None) is Then.RERUN


def restated(state: AgentState, event: AgentEvent) -> AgentEvent:
    """Return a fact for another state than the one it was recorded on: the decision in it is taken anew."""
    execution, calls = state.execution, state.tool_executions
    if not isinstance(event, ToolExecutionInterrupted) or execution is None or event.position >= len(calls):
        return event
    then = _what_follows(execution, calls[event.position], event.reason, event.cut_by)
    return event if then is event.then else structs.replace(event, then=then)


def has_tries_left(execution: ExecutionFold, tool: str, failures: int) -> bool:
    """Tell whether a call has tries left after so many failures, by the retry rule recorded with its tool."""
    spec = execution.agent.tool(tool)
    return spec is not None and spec.retry is not None and failures < spec.retry.attempts


def model_interrupted(by: Cut | Deadline) -> InferenceInterrupted:
    """Return the event of a model call that was cut off. After a stop or the run's deadline, it is not made again."""
    reason, cut_by, deadline = _cut(by)
    is_given_up = reason in {"stop", "deadline"}
    return InferenceInterrupted(reason=reason, is_given_up=is_given_up, cut_by=cut_by, deadline=deadline)


def was_productive(state: AgentState, ended_by: SegmentEnd) -> bool:
    """Tell whether the last segment made progress, so that it does not look like a run that keeps killing its process.

    A segment that ended by a pause or a wait counts as productive. So does one that ended inside a call that runs a
    session, because the progress is recorded in that session, and its own guard counts there.
    """
    execution = state.execution
    if execution is None or execution.productive or ended_by in {SegmentEnd.PAUSE, SegmentEnd.WAIT, SegmentEnd.START}:
        return True
    return any(call.runs is not None for call in state.tool_executions if call.status is CallStatus.RUNNING)
