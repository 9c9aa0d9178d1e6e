"""The answers to the kernel's questions about the state of a session."""

from collections.abc import Sequence

from steptrail.domain.agent.commands import Command, Resume
from steptrail.domain.agent.ids import is_effect_of
from steptrail.domain.agent.standing import standing, summary
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.kernel.control import Control
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.steering import asked_for


def _asked(state: AgentState) -> Pause | Stop | None:
    return asked_for(state.stop_request, state.pause_request)


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


def _version_of_key(state: AgentState, key: str) -> int | None:
    use = state.fold.keys.get(key)
    return None if use is None else state.fold.ended_at(use.execution)


def _children(state: AgentState) -> Sequence[str]:
    """Return the sessions that calls of the open step run, and those that calls of the last step left behind.

    A step that a fork shares with its source has left nothing behind that is the fork's.
    """
    last = state.current_step.tool_executions if state.current_step is not None else ()
    return [
        call.below
        for call in (state.tool_executions if state.is_open else last)
        if call.below is not None
        and is_effect_of(state.agent_id, call.effect_id or "")
        and call.status is not CallStatus.COMPLETED
    ]


def _began_and_ended(state: AgentState) -> tuple[int | None, int | None]:
    execution = state.execution
    return (None, None) if execution is None else (execution.started_at, execution.finished_at)


CONTROL: Control[AgentState, Command] = Control(
    standing=standing,
    summary=summary,
    asked=_asked,
    stop_grace=_stop_grace,
    reopen=_reopen,
    version_of_key=_version_of_key,
    children=_children,
    began_and_ended=_began_and_ended,
)
"""The `Control` of a session."""
