"""The summaries of a recorded session, read from its log in place of being written again."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from steptrail.domain.agent.events import AgentEvent, ConversationCompacted
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.capture import RecordedFailure
from steptrail.runtime.agent.compaction import Compaction, Summary, SummaryRequest
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import RecordedEffect
from steptrail.testing.replay_model import Live


class ReplayedCompaction(Compaction):
    """The compaction of an agent, which gives the recorded summaries in their order. It is recorded as the agent's."""

    def __init__(self, compaction: Compaction, recording: Recording, live: Live | None) -> None:
        super().__init__(**{field.name: getattr(compaction, field.name) for field in fields(Compaction)})
        object.__setattr__(self, "_recorded", _summaries(recording.records))
        object.__setattr__(self, "_session", recording.session)
        object.__setattr__(self, "_live", live)

    _recorded: Iterator[tuple[ConversationCompacted, RecordedEffect[ConversationCompacted]]]
    _session: str
    _live: Live | None

    async def summarised(self, asked: SummaryRequest) -> Summary:
        """Return the next recorded summary, or raise what was recorded in its place."""
        found = next(self._recorded, None)
        if found is None:
            raise ReplayMismatch(f"a summary was not recorded in session {self._session!r}")
        event, effect = found
        if self._live is not None:
            await self._live.reach_end(effect)
        problem = event.problem
        if problem is not None and problem.error_class != "steptrail:SummaryUnfit":
            raise RecordedFailure(problem)
        return Summary(event.summary, event.usage, problem.message if problem is not None else None)


def _summaries(
    records: Sequence[Recorded[AgentEvent]],
) -> Iterator[tuple[ConversationCompacted, RecordedEffect[ConversationCompacted]]]:
    for record in records:
        if isinstance(event := record.event, ConversationCompacted) and event.by is not None:
            yield event, RecordedEffect(version=record.version, end=event, ended_at=record.at)
