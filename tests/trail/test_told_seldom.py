"""What a worker tells of runs that the store does not let it go on with."""

from collections import Counter
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import SessionBusy, SteptrailError, StoreFull
from steptrail.runtime.kernel import hands
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, NotTaken
from steptrail.runtime.kernel.room import Room
from tests.runner.kit import agent_of


async def test_runs_that_the_store_refuses_are_told_of_more_and_more_seldom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "_LONGEST_REST_SECONDS", 0.0)
    agent = agent_of(["One."]).build()
    refusal: list[SteptrailError] = [StoreFull("no space left")]

    async def begin() -> None:
        raise refusal[0]

    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for session in ("s", "t"):
            await trail.start(agent, "go", session=session)
        rows = await trail.due()
        ours = Hands(Environment(store=trail.store), lambda _: begin, room=Room(2), grace=1.0)

        async def try_all(times: int) -> None:
            for row in list(rows) * times:
                task = await ours.take(row)
                assert not isinstance(task, NotTaken)
                await task

        await try_all(8)
        told = Counter(record.getMessage()[:9] for record in caplog.records)
        assert told == {"session s": 4, "session t": 4}
        assert caplog.records[-1].getMessage().endswith("no space left (said 8 times, and told seldom)")

        refusal[0] = SessionBusy("s", "another process")
        await try_all(1)
        refusal[0] = StoreFull("no space left")
        await try_all(1)
        anew = {record.getMessage() for record in caplog.records[-2:]}
        assert anew == {f"session {session} is left for a while: no space left" for session in ("s", "t")}


async def test_of_a_run_that_was_erased_since_it_was_due_nothing_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent, left = agent_of(["One."]).build(), list[str]()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        session = await trail.start(agent, "go", session="s")
        (row,) = await trail.due()
        await session.stop()
        await trail.erase("s", by="ana", reason="asked")
        hands = Hands(
            Environment(store=trail.store),
            lambda _: lambda: session.resume(agent),
            room=Room(2),
            grace=1.0,
            on_left=lambda row, _: left.append(row.session_id),
        )
        task = await hands.take(row)
        assert not isinstance(task, NotTaken)
        await task
    assert (left, caplog.records) == ([], [])
