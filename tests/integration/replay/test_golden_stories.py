"""Whatever became of a session, driving it again without model and tools gives the same events."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from steptrail.domain.agent.events import AgentEvent, ExecutionResumed, ExecutionStarted, SessionScored
from steptrail.domain.kernel.record import Recorded
from steptrail.projections import project_decisions
from steptrail.testing import Recording, replay
from tests.golden.record import STORIES
from tests.golden.streams import FOLDER, read
from tests.integration.replay.kit import story


def by_somebody(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """Leave out which process it was."""
    ran = (ExecutionStarted, ExecutionResumed)
    return [structs.replace(event, worker="") if isinstance(event, ran) else event for event in events]


def driven(records: Sequence[Recorded[AgentEvent]]) -> list[Recorded[AgentEvent]]:
    """Leave out the scores, which a replay does not give again."""
    return [record for record in records if not isinstance(record.event, SessionScored)]


@pytest.mark.parametrize("name", STORIES)
async def test_a_replay_gives_every_event_that_was_recorded_and_its_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, recording = await story(name, monkeypatch)
    again = await replay(agent, recording)
    recorded = driven(recording.records)
    assert by_somebody(again.events) == by_somebody(record.event for record in recorded)
    assert [record.at for record in again.records] == [record.at for record in recorded]


@pytest.mark.parametrize("name", STORIES)
async def test_a_file_holds_what_a_replay_needs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent, recording = await story(name, monkeypatch)
    recording.save(tmp_path / "run.jsonl")
    loaded = Recording.load(tmp_path / "run.jsonl")
    assert loaded == Recording(recording.session, list(recording.records))
    again = await replay(agent, loaded)
    assert (again.decisions, again.calls, again.endings) == project_decisions(recording.records)


# Two logs are of a time when calls that only read did not run beside each other yet: today's code starts more.
@pytest.mark.parametrize("name", sorted(STORIES.keys() - {"failed", "paused"}))
async def test_a_log_of_an_earlier_version_is_driven_by_the_code_of_today(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Recording("golden", read(FOLDER / f"agent-v1-{name}.jsonl"))
    agent, _ = await story(name, monkeypatch)
    again = await replay(agent, stored)
    assert [type(event) for event in again.events] == [type(record.event) for record in driven(stored.records)]
    assert (again.decisions, again.calls, again.endings) == project_decisions(stored.records)
