"""The fold: the only way a session's state ever changes.

Total: any event is accepted in any phase. Nothing here decides; what follows from a state is `next_effects`' business,
and which phase follows an event stands in `phases` and, for a call, in `call_phases`.
"""

from collections.abc import Iterable

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_approvals import APPROVAL_HANDLERS
from steptrail.domain.agent.fold_calls import CALL_HANDLERS
from steptrail.domain.agent.fold_decisions import DECISION_HANDLERS
from steptrail.domain.agent.fold_execution import EXECUTION_HANDLERS
from steptrail.domain.agent.fold_step import STEP_HANDLERS
from steptrail.domain.agent.phases import Phase, phase_after
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import EventKind
from steptrail.domain.kernel.handlers import complete
from steptrail.domain.kernel.record import Recorded

__all__ = ["HANDLERS", "evolve", "evolve_all", "extend", "initial"]

HANDLERS = complete(AgentEvent, EXECUTION_HANDLERS, STEP_HANDLERS, CALL_HANDLERS, APPROVAL_HANDLERS, DECISION_HANDLERS)
"""Event class -> what it changes, for every event of a session."""


def initial(session_id: str) -> AgentState:
    """Return the state of a session that has no events yet."""
    return AgentState(SessionFold(agent_id=session_id), as_of=0)


def evolve(state: AgentState, recorded: Recorded[AgentEvent]) -> AgentState:
    """Return the state after one more event. Pure: `state` stays as it is."""
    return evolve_all(state, (recorded,))


def evolve_all(state: AgentState, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
    """Return the state after `records`, in order. Equal to `evolve` one by one, and linear in their number."""
    return _folded(state.fold.copied(), state.as_of, records)


def extend(state: AgentState, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
    """Return what `evolve_all` does, in place: `state` is used up. Only for the one who alone has it."""
    return _folded(state.fold, state.as_of, records)


def _folded(fold: SessionFold, as_of: int, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
    for record in records:
        _apply(fold, record)
        as_of = record.at
    return AgentState(fold, as_of=as_of)


def _apply(fold: SessionFold, record: Recorded[AgentEvent]) -> None:
    version, at, event, _ = record
    before = fold.phase
    returns_to = fold.wait_origin if before is Phase.WAITING else fold.resume_to
    # The handler sees the phase that the event found.
    HANDLERS[type(event)](fold, event, at)
    fold.phase = phase_after(before, event, returns_to)
    # Another worker's clock may be ahead.
    fold.version, fold.updated_at = version, max(fold.updated_at, at)
    if event.counts_as is not EventKind.OUTSIDE:  # what others write is no sign of the owner's life
        fold.seen_at = at
