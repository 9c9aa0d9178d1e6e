"""The verdicts on the answers of a recorded session, read from its log in place of being judged again."""

from collections.abc import Collection
from typing import Generic

from steptrail.domain.agent.answer_to_judge import BROKEN_VALIDATOR
from steptrail.domain.agent.events import AgentEvent, AnswerAccepted, AnswerRejected, EvaluationsRecorded, HooksRan
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputSpec
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.output import AgentOutput
from steptrail.runtime.agent.type_variables import OutputT
from steptrail.runtime.kernel.ports import ModelDriver


class ReplayedOutput(Generic[OutputT]):
    """The output of an agent whose recorded verdicts hold. An answer to another output than the recorded is judged."""

    def __init__(self, output: AgentOutput[OutputT], recording: Recording) -> None:
        self._output = output
        self._verdicts: dict[int, tuple[OutputSpec | None, tuple[AgentEvent, ...]]] = {}
        state = initial(recording.session)
        for place, record in enumerate(recording.records):
            if (verdict := _verdict([each.event for each in recording.records[max(0, place - 1) : place + 1]])) != ():
                asked = state.agent.output if state.agent is not None else None
                self._verdicts[state.fold.inferences] = (asked, verdict)
            state = evolve_all(state, (record,))

    def spec(self, agent: str, model: ModelDriver, tools: Collection[str]) -> OutputSpec:
        """Return the form of the agent's own output."""
        return self._output.spec(agent, model, tools)

    def read(self, value: JsonValue) -> OutputT:
        """Return the value of an accepted answer. Raises `StoredOutputInvalid`."""
        return self._output.read(value)

    async def judge(self, state: AgentState, means: Means) -> tuple[AgentEvent, ...]:
        """Return the recorded verdict on the answer; a new one if the output has changed, or if none was recorded."""
        asked, verdict = self._verdicts.get(state.fold.inferences, (None, ()))
        if asked is not None and state.agent is not None and state.agent.output == asked:
            return verdict
        return await self._output.judge(state, means)


def _verdict(last: list[AgentEvent]) -> tuple[AgentEvent, ...]:
    """Return the verdict that ends with the last of two events; `()` when that is no verdict."""
    match last:
        case [*_, AnswerAccepted() | AnswerRejected() as verdict]:
            return (verdict,)
        case [EvaluationsRecorded() as votes, HooksRan(hook_type=hook_type) as mark] if hook_type == BROKEN_VALIDATOR:
            return (votes, mark)
        case _:
            return ()
