"""From stored events to lifecycle events: one fold a session, the same for a live run and for a log that is read later.

A stored event says little about itself. Its meaning follows from the state in which it happened, so this fold keeps the
state. To begin in the middle of a session, begin with the state there.
"""

from collections.abc import Iterable

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import complete
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.lifecycle.base import RunEvent
from steptrail.projections.lifecycle.execution_handlers import OF_EXECUTIONS
from steptrail.projections.lifecycle.step_handlers import OF_STEPS
from steptrail.projections.lifecycle.telling import Met, Tellers, Told
from steptrail.projections.lifecycle.tool_handlers import OF_TOOLS

__all__ = ["LifecycleFold", "lifecycle_events"]

_UNTOLD = Tellers()


@_UNTOLD.of(
    stored.ApprovalDenied,
    stored.ApprovalExpired,
    stored.ApprovalGranted,
    stored.ApprovalRequested,
    stored.EvaluationsRecorded,
    stored.InferenceRequestAmended,
    stored.MetadataChanged,
    stored.PauseRequested,
    stored.RetryScheduled,
    stored.SessionForked,
    stored.SessionStarted,
    stored.ToolCallAmended,
    stored.ToolCallHeld,
    stored.ToolRetryScheduled,
)
def _untold(met: Met, event: Event) -> Told:
    """Tell nothing: what follows from the event is told with the one that follows it, or is nobody's concern."""
    del met, event
    return ()


_TELLERS = complete(AgentEvent, OF_EXECUTIONS, OF_STEPS, OF_TOOLS, _UNTOLD)


class LifecycleFold:
    """Tells what each stored event of one session means. `state` is the session before the first of them."""

    def __init__(self, state: AgentState) -> None:
        # A copy: it is filled in place from here on.
        self._state = evolve_all(state, ())

    @property
    def state(self) -> AgentState:
        """The session after the newest event it has been given."""
        return self._state

    @property
    def version(self) -> int:
        """The version of the newest event it has been given."""
        return self._state.version

    def apply(self, record: Recorded[AgentEvent], *, position: int | None = None) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of the next stored event, none for most. `position` is its place in the log."""
        before = self._state
        calls = before.tool_executions
        execution = before.execution
        guard_votes = execution.guard_votes if execution is not None else ()
        self._state = after = extend(before, (record,))
        met = Met(after, record, calls, guard_votes, position)
        return tuple(_TELLERS[type(record.event)](met, record.event))


def lifecycle_events(session_id: str, records: Iterable[Recorded[AgentEvent]]) -> tuple[RunEvent, ...]:
    """Return the lifecycle events of a whole session, given its stored events, such as those of `session.history()`.

    For a fork these are its own alone: the past that it shares with its source was told there.
    """
    fold, told = LifecycleFold(initial(session_id)), list[RunEvent]()
    for record in records:
        told += fold.apply(record)
        if isinstance(record.event, stored.SessionForked):
            told.clear()
    return tuple(told)
