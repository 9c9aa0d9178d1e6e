"""The texts of instructions of a recorded session, read from its log in place of being asked for again."""

from collections.abc import Collection

from steptrail.domain.agent.events import (
    AgentEvent,
    EvaluationsRecorded,
    ExecutionResumed,
    ExecutionStarted,
    InstructionsResolved,
)
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.state import AgentState
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.instructions import Instructions
from steptrail.testing.recorded_run import RecordedRun, place_of
from steptrail.testing.replay_model import Live, until_cut


class ReplayedInstructions(Instructions):
    """The instructions of an agent whose recorded texts hold. Functions that no recorded agent had are asked."""

    def __init__(self, instructions: Instructions, recording: Recording, live: Live | None) -> None:
        super().__init__(instructions.written)
        self._live = live
        self._tries = RecordedRun(recording, is_driven=live is not None).instructions
        agents = [event.agent for event in recording.events if isinstance(event, ExecutionStarted | ExecutionResumed)]
        self._known = {spec.name for agent in agents if agent is not None for spec in agent.instructions}

    async def resolve(
        self, state: AgentState, names: Collection[str], means: Means, within: float | None
    ) -> tuple[AgentEvent, ...]:
        """Return what was recorded before this step, and ask the functions that were not there then."""
        tries, given = self._tries.get(place_of(state), []), list[AgentEvent]()
        if self._live is not None:
            tries = [tries.pop(0)] if tries else []
        recorded = {name: event for each in tries for name, event in each.given.items()}
        for spec in self.specs:
            if spec.name not in names:
                continue
            if spec.name not in self._known:
                given += await super().resolve(state, {spec.name}, means, within)
            elif (event := recorded.get(spec.name)) is not None and not _is_known(state, event):
                given.append(event)
            if given and isinstance(given[-1], EvaluationsRecorded):
                break
        if self._live is not None and tries:
            await self._live.reach_end(tries[0])
            if tries[0].was_cut_by == "cancelled":
                await until_cut(tries[0], "the instructions", is_driven=True)
        return tuple(given)


def _is_known(state: AgentState, event: AgentEvent) -> bool:
    return isinstance(event, InstructionsResolved) and state.instructions.get(event.name, "") == event.text
