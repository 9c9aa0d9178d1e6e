"""The types of the handlers that make lifecycle events: one handler for each class of stored events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from steptrail.domain.agent.ids import SessionId, effect_id, execution_id
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.kernel.handlers import Handlers
from steptrail.projections.lifecycle.base import Head, RunEvent, StoredMoment


class CallHead(Head):
    """The fields that all lifecycle events of one tool call share."""

    step: int
    tool: str
    tool_call_id: str
    message_id: str


@dataclass(slots=True)
class Moment(StoredMoment[AgentState]):
    """A stored event, and beside it the parts of the state before it that the handlers need.

    A handler calls `head` or `call_head` once for each lifecycle event, in their order: the calls number the events.
    """

    calls_before: Sequence[ToolExecution]
    guard_votes_before: tuple[ContinuationEvaluation, ...]

    def call_head(self, call: ToolExecution) -> CallHead:
        """Return the first fields of the next lifecycle event, which is about this call."""
        execution = execution_id(SessionId(self.state.agent_id), self.state.fold.executions)
        return {
            **self.head(),
            "step": self.step,
            "tool": call.name,
            "tool_call_id": call.call.id,
            "message_id": effect_id(execution, self.step, call.position),
        }

    @property
    def step(self) -> int:
        """The number of the open step; that of the last one when none is open."""
        return self.state.open_step or self.state.step_count

    @property
    def tools(self) -> int:
        """The number of tools of the agent."""
        return len(self.state.agent.tools) if self.state.agent is not None else 0

    def call(self, position: int | None) -> ToolExecution | None:
        """Return a call of the open step, as it is now."""
        calls = self.state.tool_executions
        return calls[position] if position is not None and position < len(calls) else None

    def call_before(self, position: int) -> ToolExecution | None:
        """Return a call of the open step, as it was before the event."""
        return self.calls_before[position] if position < len(self.calls_before) else None


LifecycleEvents: TypeAlias = Iterable[RunEvent]
"""The result of a handler: the lifecycle events of one stored event, in their order."""

LifecycleHandlers: TypeAlias = Handlers[Moment, [], LifecycleEvents]
