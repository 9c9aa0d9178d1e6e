"""The input of the handlers of lifecycle events, and their output: a class and the fields that it adds."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.lifecycle.base import RunEvent

__all__ = ["Met", "Told"]

Told = Iterator[tuple[type[RunEvent], dict[str, Any]]]


class Met(NamedTuple):
    """A stored event with the state after it, and what that state no longer knows of the moment before."""

    state: AgentState
    record: Recorded[AgentEvent]
    calls_before: Sequence[ToolExecution]
    guard_votes_before: tuple[ContinuationEvaluation, ...]

    @property
    def step(self) -> int:
        """The number of the open step; that of the last one when none is open."""
        return self.state.open_step or self.state.step_count

    @property
    def tools(self) -> int:
        """How many tools the agent has."""
        return len(self.state.agent.tools) if self.state.agent is not None else 0

    @property
    def last_error(self) -> dict[str, str | None]:
        """The error of the last step, as `error` and `error_type`; both are None when it did not fail."""
        step = self.state.current_step
        error = step.errors[-1].error if step is not None and step.errors else None
        if error is None:
            return {"error": None, "error_type": None}
        return {"error": error.message, "error_type": error.type.value}

    def call(self, position: int | None) -> ToolExecution | None:
        """Return a call of the open step, as it is now."""
        calls = self.state.tool_executions
        return calls[position] if position is not None and position < len(calls) else None

    def call_before(self, position: int) -> ToolExecution | None:
        """Return a call of the open step, as it was before the event."""
        return self.calls_before[position] if position < len(self.calls_before) else None
