"""From stored events to lifecycle events: one fold a session, the same for a live run and for a log that is read later.

A stored event says little about itself. Its meaning follows from the state in which it happened, so this fold keeps the
state. To begin in the middle of a session, begin with the state there.
"""

from collections.abc import Callable, Iterable
from typing import Any

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.lifecycle.base import RunEvent
from steptrail.projections.lifecycle.execution_handlers import OF_EXECUTIONS
from steptrail.projections.lifecycle.step_handlers import OF_STEPS
from steptrail.projections.lifecycle.telling import Met, Told
from steptrail.projections.lifecycle.tool_handlers import OF_TOOLS

__all__ = ["LifecycleFold", "lifecycle_events"]

_TELLERS: dict[type[AgentEvent], Callable[[Met, Any], Told]] = {**OF_EXECUTIONS, **OF_STEPS, **OF_TOOLS}


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
        teller = _TELLERS.get(type(record.event))
        before = self._state
        calls = before.tool_executions
        execution = before.execution
        guard_votes = execution.guard_votes if execution is not None else ()
        self._state = after = extend(before, (record,))
        if teller is None:
            return ()
        met = Met(after, record, calls, guard_votes)
        return tuple(
            kind(
                session_id=after.agent_id,
                parent_session_id=after.parent_agent_id,
                execution_id=after.execution_id or "",
                version=record.version,
                at=record.at,
                session_status=after.status,
                index=index,
                position=position,
                **said,
            )
            for index, (kind, said) in enumerate(teller(met, record.event))
        )


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
