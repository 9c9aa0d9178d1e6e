"""Makes lifecycle events from stored events, in the same way for a live run and for a log that is read later.

The meaning of a stored event follows from the state in which it happened, so the fold of a session keeps that state. To
begin in the middle of a session, begin with the state there.
"""

from collections.abc import Iterable

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import complete
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.lifecycle.base import RunEvent, told_of
from steptrail.projections.lifecycle.execution_handlers import OF_EXECUTIONS
from steptrail.projections.lifecycle.handler_types import LifecycleEvents, LifecycleHandlers, Moment
from steptrail.projections.lifecycle.step_handlers import OF_STEPS
from steptrail.projections.lifecycle.tool_handlers import OF_TOOLS

_WITHOUT_LIFECYCLE = LifecycleHandlers()


@_WITHOUT_LIFECYCLE.of(
    stored.AnswerAccepted,
    stored.ApprovalDenied,
    stored.ApprovalExpired,
    stored.ApprovalGranted,
    stored.ApprovalRequested,
    stored.EvaluationsRecorded,
    stored.InferenceRequestAmended,
    stored.InstructionsResolved,
    stored.MetadataChanged,
    stored.ModelSwitched,
    stored.PauseRequested,
    stored.RetryScheduled,
    stored.SessionForked,
    stored.SessionScored,
    stored.SessionStarted,
    stored.ToolCallAmended,
    stored.ToolCallHeld,
    stored.ToolRetryScheduled,
)
def _without_lifecycle(moment: Moment, event: Event) -> LifecycleEvents:
    """Return no lifecycle events: a later event leads to one, or no listener needs to know."""
    return ()


_HANDLERS = complete(AgentEvent, OF_EXECUTIONS, OF_STEPS, OF_TOOLS, _WITHOUT_LIFECYCLE)


class LifecycleFold:
    """Makes the lifecycle events of one session. `state` is the session before the first stored event."""

    def __init__(self, state: AgentState) -> None:
        # This makes a copy, because `apply` changes the state in place.
        self.state = evolve_all(state, ())
        """The session after the newest event that was applied."""

    @property
    def version(self) -> int:
        """The version of the newest event that was applied."""
        return self.state.version

    def copied(self) -> "LifecycleFold":
        """Return one that goes on from here by itself."""
        return LifecycleFold(self.state)

    def apply(self, record: Recorded[AgentEvent], *, position: int | None = None) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of the next stored event, none for most. `position` is its place in the log."""
        before = self.state
        calls = before.tool_executions
        execution = before.execution
        guard_votes = execution.guard_votes if execution is not None else ()
        self.state = after = extend(before, (record,))
        moment = Moment(after.agent_id, after, record, position, calls, guard_votes)
        return tuple(_HANDLERS[type(record.event)](moment, record.event))


def lifecycle_events(session_id: str, records: Iterable[Recorded[AgentEvent]]) -> tuple[RunEvent, ...]:
    """Return the lifecycle events of a whole session, given its stored events, such as those of `session.history()`.

    For a fork, only the events after its beginning count: the events of its past belong to the session before.
    """
    return told_of(LifecycleFold(initial(session_id)).apply, records)
