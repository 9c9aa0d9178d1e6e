"""Agents that tool calls run, told between the call and its result. Each is told of once in a run."""

from typing import TYPE_CHECKING

from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.step import CallStatus
from steptrail.projections.lifecycle.tools import SubagentSpawning

if TYPE_CHECKING:
    from ag_ui.core import Event


class SubagentsShown:
    """The subagents that a front end has been told of, and those that are at work, by the positions of their calls."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._at_work: dict[int, str] = {}

    def spawned(self, event: SubagentSpawning, position: int, call_id: str) -> "list[Event]":
        """Tell that a call begins its subagent; None when it is only tried again."""
        from ag_ui.core import SubagentStartedEvent

        if event.subagent_id in self._told:
            return []
        self._told.add(event.subagent_id)
        self._at_work[position] = event.subagent_id
        return [
            SubagentStartedEvent(subagent_run_id=event.subagent_id, name=event.subagent, parent_tool_call_id=call_id)
        ]

    def ended(self, position: int, origin: MessageOrigin) -> "list[Event]":
        """Tell that a call has ended, if it ran a subagent."""
        from ag_ui.core import SubagentErrorEvent, SubagentFinishedEvent, SubagentFinishedSuccessOutcome

        subagent = self._at_work.pop(position, None)
        if subagent is None:
            return []
        if origin.status is CallStatus.COMPLETED:
            return [SubagentFinishedEvent(subagent_run_id=subagent, outcome=SubagentFinishedSuccessOutcome())]
        status = origin.status.value if origin.status is not None else "failed"
        return [SubagentErrorEvent(subagent_run_id=subagent, message=f"The call is {status}.", code=status)]

    def suspended(self) -> "list[Event]":
        """Tell that those at work rest with the run."""
        from ag_ui.core import SubagentFinishedEvent, SubagentFinishedSuspendedOutcome

        resting, self._at_work = self._at_work, {}
        return [
            SubagentFinishedEvent(subagent_run_id=each, outcome=SubagentFinishedSuspendedOutcome())
            for each in resting.values()
        ]
