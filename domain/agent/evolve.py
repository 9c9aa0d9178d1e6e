"""The fold: the only way in which the state of a session changes.

It is total: any event is accepted in any phase. It decides nothing. `next_effects` says what follows from a state. The
tables in `phases`, and in `call_phases` for a call, say which phase follows an event.
"""

from collections.abc import Iterable

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_approvals import APPROVAL_HANDLERS
from steptrail.domain.agent.fold_calls import CALL_HANDLERS
from steptrail.domain.agent.fold_compaction import COMPACTION_HANDLERS
from steptrail.domain.agent.fold_decisions import DECISION_HANDLERS
from steptrail.domain.agent.fold_execution import EXECUTION_HANDLERS
from steptrail.domain.agent.fold_step import STEP_HANDLERS
from steptrail.domain.agent.phases import Phase, phase_after
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import EventKind
from steptrail.domain.kernel.handlers import complete
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import SessionScored

HANDLERS = complete(
    AgentEvent,
    EXECUTION_HANDLERS,
    STEP_HANDLERS,
    CALL_HANDLERS,
    APPROVAL_HANDLERS,
    DECISION_HANDLERS,
    COMPACTION_HANDLERS,
)
"""Event class -> the function that applies such an event, for every event of a session."""

_OF_OTHERS = frozenset(kind for kind in HANDLERS if kind.KIND is EventKind.OUTSIDE or "counts_as" in vars(kind))
"""The classes of events that others than the owner may have written. Each event of a long log is looked up in here, and
few are asked what they count as."""


def initial(session_id: str) -> AgentState:
    """Return the state of a session that has no events yet."""
    return AgentState(SessionFold(agent_id=session_id), as_of=0)


def evolve(state: AgentState, recorded: Recorded[AgentEvent]) -> AgentState:
    """Return the state after one more event. `state` is not changed."""
    return evolve_all(state, (recorded,))


def evolve_all(state: AgentState, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
    """Return the state after `records`, in order. Takes time in proportion to their number. `state` is not changed."""
    return extend(AgentState(state.fold.copied(), as_of=state.as_of), records)


def extend(state: AgentState, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
    """Return the same as `evolve_all`, faster, by changing `state` in place. Nobody may use `state` afterwards."""
    fold = state.fold
    for record in records:
        at, event = record.at, record.event
        kind, before = type(event), fold.phase
        returns_to = fold.wait_origin if before is Phase.WAITING else fold.resume_to
        # The handler runs before the phase changes: it sees the phase in which the event arrived.
        HANDLERS[kind](fold, event, at)
        if kind is SessionScored:
            fold.version = record.version  # it is about the run, and no part of it: not even of its time
            continue
        fold.phase = phase_after(before, event, returns_to)
        # It may run backwards: another process, whose clock is ahead, stores a command while the owner is at work.
        fold.version, fold.updated_at = record.version, at
        # What others write is no sign of the owner's life.
        if kind not in _OF_OTHERS or event.counts_as is not EventKind.OUTSIDE:
            fold.seen_at = at
        state.as_of = at
    return state
