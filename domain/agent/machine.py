"""The session of an agent, described as a machine of the kernel."""

from collections.abc import Mapping

from steptrail.domain.agent import events
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.commands import Command, Resume
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.ids import STREAM_PREFIX, is_effect_of
from steptrail.domain.agent.interruptions import restated
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.snapshot import SNAPSHOTS
from steptrail.domain.agent.standing import standing, summary
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.machine import CallInFlight, Machine
from steptrail.domain.shared.forks import forked_from
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.state import began_again_and_ended, segment_of, version_of_key
from steptrail.domain.shared.steering import asked_of


def _stop_grace(state: AgentState) -> float | None:
    execution = state.execution
    if execution is None or execution.stop_request is None:
        return None
    return execution.agent.limits.stop_grace


def _reopen(state: AgentState, worker: str, took_over: bool) -> Resume | None:
    if state.agent is None or not state.is_open:
        return None
    ended_by = SegmentEnd.TAKE_OVER if took_over else None
    return Resume(agent=state.agent, worker=worker, last_seen=state.fold.seen_at, ended_by=ended_by)


def _children(state: AgentState) -> Mapping[str, None]:
    """Return the sessions that calls of the open step run, and those that calls of the last step left behind.

    A step that a fork shares with its source has left nothing behind that is the fork's.
    """
    last = state.current_step.tool_executions if state.current_step is not None else ()
    calls = state.tool_executions if state.is_open else last
    return dict.fromkeys(
        call.below
        for call in sorted(calls, key=lambda call: call.phase is not CallPhase.RUNNING)
        if call.below is not None
        and is_effect_of(state.agent_id, call.effect_id or "")
        and call.status is not CallStatus.COMPLETED
    )


def _opens_segment(event: events.AgentEvent) -> bool:
    return isinstance(event, events.ExecutionResumed) or (
        isinstance(event, events.ExecutionStarted) and event.worker is not None
    )


def _settle_late(event: events.AgentEvent, call: CallInFlight, segment: int) -> events.AgentEvent | None:
    """Return the late report of a call's end by a worker of `segment`; None for events that are no end of a call."""
    if not isinstance(event, events.ToolExecutionCompleted | events.ToolExecutionFailed):
        return None
    return events.ToolExecutionSettledLate(
        effect_id=call.effect_id,
        attempt=call.attempt,
        segment=segment,
        result=event.result if isinstance(event, events.ToolExecutionCompleted) else None,
        error=event.error if isinstance(event, events.ToolExecutionFailed) else None,
        cut_by=event.cut_by if isinstance(event, events.ToolExecutionFailed) else None,
        shown_characters=event.shown_characters if isinstance(event, events.ToolExecutionCompleted) else None,
        usage=event.usage,
        files=event.files if isinstance(event, events.ToolExecutionCompleted) else (),
    )


AGENT: Machine[AgentState, Command, events.AgentEvent, Effect] = Machine(
    stream_prefix=STREAM_PREFIX,
    initial=initial,
    evolve_all=evolve_all,
    extend=extend,
    decide=decide,
    next_effects=next_effects,
    control=Control(
        standing=standing,
        summary=summary,
        asked=asked_of,
        stop_grace=_stop_grace,
        reopen=_reopen,
        version_of_key=version_of_key,
        children=_children,
        began_again_and_ended=began_again_and_ended,
    ),
    forked_from=forked_from(STREAM_PREFIX),
    segment=segment_of,
    opens_segment=_opens_segment,
    settle_late=_settle_late,
    restated=restated,
    snapshots=SNAPSHOTS,
)
"""The machine of an agent's session."""
