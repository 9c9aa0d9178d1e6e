"""The fold: the only way in which the state of a workflow changes. It is total, and decides nothing."""

from collections.abc import Iterable

from steptrail.domain.flow.events import FlowEvent, SessionScored, WaitEnded
from steptrail.domain.flow.fold import FlowFold
from steptrail.domain.flow.fold_nodes import NODE_HANDLERS
from steptrail.domain.flow.fold_run import RUN_HANDLERS
from steptrail.domain.flow.fold_tasks import TASK_HANDLERS
from steptrail.domain.flow.phases import RunPhase, phase_after
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.event import EventKind
from steptrail.domain.kernel.handlers import complete
from steptrail.domain.kernel.record import Recorded

HANDLERS = complete(FlowEvent, RUN_HANDLERS, TASK_HANDLERS, NODE_HANDLERS)
"""Event class -> the function that applies such an event, for every event of a workflow."""


_OF_OWNERS = frozenset({EventKind.ANEW, EventKind.INTENT})
"""The kinds of events that nobody but an owner writes, other than the end of a wait."""


def initial(flow_id: str) -> FlowState:
    """Return the state of a stream that has no events yet."""
    return FlowState(FlowFold(flow_id=flow_id), as_of=0)


def evolve_all(state: FlowState, records: Iterable[Recorded[FlowEvent]]) -> FlowState:
    """Return the state after `records`, in order. `state` is not changed."""
    return extend(FlowState(state.fold.copied(), as_of=state.as_of), records)


def extend(state: FlowState, records: Iterable[Recorded[FlowEvent]]) -> FlowState:
    """Return the same as `evolve_all`, faster, by changing `state` in place. Nobody may use `state` afterwards."""
    fold = state.fold
    for record in records:
        at, event, kind = record.at, record.event, type(record.event)
        # The handler runs before the phase changes: it sees the phase in which the event arrived.
        HANDLERS[kind](fold, event, at)
        if kind is SessionScored:
            fold.version = record.version  # it is about the run, and no part of it: not even of its time
            continue
        is_ending = fold.execution is not None and fold.execution.ended_by is not None
        fold.phase = phase_after(fold.phase, event, is_ending=is_ending)
        # It may run backwards: another process, whose clock is ahead, stores a command while the owner is at work.
        fold.version, fold.updated_at = record.version, at
        if event.counts_as is not EventKind.OUTSIDE:  # what others write is no sign of the owner's life
            fold.seen_at = at
        if (run := fold.execution) is not None:
            if run.waits and _goes_on(fold, event):
                run.waits = ()
            if not run.acted:
                run.forkable_at = record.version
        state.as_of = at
    return state


def _goes_on(fold: FlowFold, event: FlowEvent) -> bool:
    """Tell whether an event shows that an owner is at work again, and that what was waited for is over.

    A person's answer may end a wait too, and then waits with the run for an owner.
    """
    is_owners = event.counts_as in _OF_OWNERS and not isinstance(event, WaitEnded)
    return is_owners and fold.phase in {RunPhase.WORKING, RunPhase.ENDING}
