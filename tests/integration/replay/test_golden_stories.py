"""Whatever became of a session, driving it again without model and tools gives the same events."""

import asyncio

import pytest

from steptrail.projections import project_decisions
from steptrail.testing import normalise, replay
from tests.golden.record import STORIES
from tests.integration.replay.kit import story


@pytest.mark.parametrize("name", STORIES)
def test_a_replay_gives_the_events_that_were_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def both() -> None:
        agent, recording = await story(name, monkeypatch)
        again = await replay(agent, recording)
        assert normalise(again.events) == normalise(recording.events)
        assert (again.decisions, again.calls, again.endings) == project_decisions(recording.records)

    asyncio.run(both())
