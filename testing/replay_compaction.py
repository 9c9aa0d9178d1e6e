"""The summaries of a recorded session, read from its log in place of being written again."""

from dataclasses import dataclass

from steptrail.runtime.agent.compaction import Compaction, Summary, SummaryRequest
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import RecordedSummary
from steptrail.testing.replay_model import Live, next_try, until_cut


@dataclass(frozen=True, kw_only=True)
class ReplayedCompaction(Compaction):
    """The compaction of an agent, which gives the recorded summaries. It is recorded as the agent's.

    The place is found by how many summaries were asked for before, so a replay may go on in a fork.
    """

    session: str
    tries: dict[int, list[RecordedSummary]]
    live: Live | None

    async def summarised(self, asked: SummaryRequest) -> Summary:
        """Return the recorded summary, or why there was none."""
        if not (tries := self.tries.get(asked.number)):
            raise ReplayMismatch(f"a summary was not recorded in session {self.session!r}")
        recorded = next_try(tries, is_driven=self.live is not None)
        if self.live is not None:
            await self.live.reach_end(recorded)
        if (event := recorded.end) is None:
            await until_cut(recorded, "a summary", is_driven=self.live is not None)
        return Summary(event.summary, event.usage, event.problem)
