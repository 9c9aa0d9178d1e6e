"""The summaries of a recorded session, read from its log in place of being written again."""

from dataclasses import fields

from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.agent.compaction import Compaction, Summary, SummaryRequest
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import RecordedRun, RecordedSummary
from steptrail.testing.replay_model import Live, next_try, until_cut


class ReplayedCompaction(Compaction):
    """The compaction of an agent, which gives the recorded summaries. It is recorded as the agent's.

    The place is found by how many summaries were asked for before, so a replay may go on in a fork.
    """

    def __init__(self, compaction: Compaction, recording: Recording, live: Live | None) -> None:
        super().__init__(**{field.name: getattr(compaction, field.name) for field in fields(Compaction)})
        object.__setattr__(self, "_tries", RecordedRun(recording, is_driven=live is not None).summaries)
        object.__setattr__(self, "_session", recording.session)
        object.__setattr__(self, "_live", live)

    _tries: dict[int, list[RecordedSummary]]
    _session: str
    _live: Live | None

    async def summarised(self, asked: SummaryRequest) -> Summary:
        """Return the recorded summary, or why there was none."""
        if not (tries := self._tries[asked.number]):
            raise ReplayMismatch(f"a summary was not recorded in session {self._session!r}")
        recorded = next_try(tries, is_driven=self._live is not None)
        if self._live is not None:
            await self._live.reach_end(recorded)
        if (event := recorded.end) is None:
            await until_cut(recorded, "a summary", is_driven=self._live is not None)
        return Summary(event.summary, event.usage, event.problem)
