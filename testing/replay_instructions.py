"""The texts of instructions of a recorded session, read from its log in place of being asked for again."""

from collections import defaultdict
from collections.abc import Collection

from steptrail.domain.agent.effects import ResolveInstructions
from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded, ExecutionResumed, InstructionsResolved
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.instructions import Instructions
from steptrail.testing.replay_model import Live


class ReplayedInstructions(Instructions):
    """The instructions of an agent whose recorded texts hold. Functions that the recorded agent had not are asked.

    They take the time that they took, which a limit may have met. `live` is for `replay`.
    """

    def __init__(self, instructions: Instructions, recording: Recording, live: Live | None) -> None:
        super().__init__(instructions.written)
        self._live, self._ends = live, dict[tuple[int, int], int]()
        self._recorded: dict[tuple[int, int], dict[str, AgentEvent]] = defaultdict(dict)
        self._known: dict[int, set[str]] = defaultdict(set)
        state = initial(recording.session)
        for record in recording.records:
            is_asked = any(isinstance(due, ResolveInstructions) for due in next_effects(state, state.fold.updated_at))
            if is_asked and not isinstance(record.event, ExecutionResumed):
                self._ends[_place(state)] = record.at
            match record.event:
                case InstructionsResolved(name=name) | EvaluationsRecorded(hook=str(name)) as event if (
                    state.phase is Phase.CONTINUING
                ):
                    self._recorded[_place(state)][name] = event
                case _:
                    pass
            state = evolve_all(state, (record,))
            if state.agent is not None:
                self._known[state.fold.executions] |= {spec.name for spec in state.agent.instructions}

    async def resolve(
        self, state: AgentState, names: Collection[str], means: Means, within: float | None
    ) -> tuple[AgentEvent, ...]:
        """Return what was recorded before this step, and ask the functions that were not there then."""
        given, ended_at = list[AgentEvent](), self._ends.get(_place(state))
        for spec in self.specs:
            if spec.name not in names:
                continue
            if spec.name not in self._known[state.fold.executions]:
                given += await super().resolve(state, {spec.name}, means, within)
            elif (event := self._recorded[_place(state)].get(spec.name)) is not None and not _is_known(state, event):
                given.append(event)
            if given and isinstance(given[-1], EvaluationsRecorded):
                break
        if self._live is not None and ended_at is not None:
            self._live.clock.reach(ended_at)
        return tuple(given)


def _is_known(state: AgentState, event: AgentEvent) -> bool:
    return isinstance(event, InstructionsResolved) and state.instructions.get(event.name, "") == event.text


def _place(state: AgentState) -> tuple[int, int]:
    return state.fold.executions, state.step_count
