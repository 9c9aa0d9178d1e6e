"""Sessions and runs are scored from any process, whatever they are doing, and no run notices."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from steptrail import Steptrail, StopReason
from steptrail.domain.kernel.standing import StandingState
from steptrail.errors import CommandRejected, ConfigurationError, SessionErased, SessionNotFound
from steptrail.interfaces.python.archive import ArchiveFile, file_of, unarchived
from steptrail.projections.scores import RecordedScore
from steptrail.testing import ManualClock, call
from steptrail.workflow import Workflow
from tests.runner.kit import agent_of
from tests.trail.workers import Desk, opened

AGENT = agent_of([call("add", a=1, b=2), "Three.", "Four."]).build()


def said(scores: Sequence[RecordedScore]) -> list[str]:
    return [str(each) for each in scores]


async def test_the_newest_score_of_a_name_by_the_same_of_the_same_counts_and_the_others_stay(store_url: str) -> None:
    async with opened(store_url) as trail, opened(store_url) as other:
        await trail.run(AGENT, "1 + 2?", session="s")
        session = other.session("s")
        for value in (0.2, 0.9):
            await session.score("helpful", value, by="ana", comment="clear")
        await session.score("helpful", True, by="bob")
        result = await session.score("helpful", "very", by="ana", step=2)
        assert (result.status, result.stop_reason) == ("completed", StopReason.COMPLETED)
        scores = await trail.session("s").scores()
        assert said(scores) == [
            "helpful = 0.9 by ana (clear)",
            "helpful = yes by bob",
            "helpful of step 2 = very by ana",
        ]
        assert [each.value for each in await session.scores(history=True)] == [0.2, 0.9, True, "very"]
        with pytest.raises(CommandRejected, match="execution 1 has no step 3: there are 2"):
            await session.score("helpful", 1, by="ana", step=3)


async def test_a_score_of_an_older_execution_names_it(store_url: str) -> None:
    async with opened(store_url) as trail:
        await trail.run(AGENT, "1 + 2?", session="s")
        session = trail.session("s")
        await session.send(AGENT, "and 2 + 2?")
        await session.score("helpful", 1, by="ana", execution="s:1", step=2, key="k")
        await session.score("helpful", 1, by="ana", execution=1, step=2, key="k")
        await session.score("helpful", 0, by="ana")
        assert [(each.execution, each.step) for each in await session.scores()] == [(1, 2), (2, None)]
        assert said((await session.why(execution=1)).scores) == ["helpful of step 2 = 1 by ana"]
        assert said((await session.why()).scores) == ["helpful = 0 by ana"]
        for execution in (3, "s:3"):
            with pytest.raises(CommandRejected, match="it has no execution 3: there are 2"):
                await session.score("helpful", 1, by="ana", execution=execution)
        with pytest.raises(CommandRejected, match="it has no execution 'other:1'"):
            await session.score("helpful", 1, by="ana", execution="other:1")
        with pytest.raises(ConfigurationError, match="`execution`, a number"):
            await session.score("helpful", 1, by="ana", execution=0)


async def test_scores_beside_the_owner_disturb_neither_its_run_nor_the_chain_of_its_commits(
    store_url: str, desk: Desk
) -> None:
    async with opened(store_url) as trail, opened(store_url) as other:
        desk.gate.clear()
        running = asyncio.create_task(trail.run(desk.agent(), "go", session="s"))
        while not desk.inside:
            await asyncio.sleep(0.01)
        session = other.session("s")
        for number in range(5):
            assert (await session.score("helpful", number, by="ana")).status == "in_progress"
        desk.gate.set()
        result = await running
        assert (result.output, desk.ran.total()) == ("Done.", 1)
        (row,) = await trail.runs()
        assert (row.standing, row.status) == (StandingState.DONE, "completed")
        before = await session.state()
        await session.score("helpful", 9, by="ana")
        assert (await trail.runs()) == [row]
        after = await session.state()
        assert (after.version, after.updated_at) == (before.version + 1, before.updated_at)
        # Every digest is verified where the session is gone on with.
        more = agent_of(["And done.", "And done.", "And done."]).with_tools(*desk.tools).build()
        assert (await session.send(more, "again")).status == "completed"


async def test_what_waits_is_scored_and_waits_on(store_url: str, desk: Desk) -> None:
    async with opened(store_url) as trail:
        await trail.run(desk.agent(first="pay"), "go", session="s")
        session = trail.session("s")
        (row,) = await trail.runs()
        assert (await session.score("helpful", 1, by="ana")).status == "waiting"
        assert await trail.runs() == [row]
        (asked,) = await trail.inbox()
        await session.approve(asked.id, by="ana")
        assert (await session.resume(desk.agent(first="pay"))).output == "Done."


async def test_a_fork_has_scores_of_its_own(store_url: str) -> None:
    async with opened(store_url) as trail:
        await trail.run(AGENT, "1 + 2?", session="s")
        await trail.session("s").score("helpful", 1, by="ana")
        fork = await trail.session("s").fork(session="f")
        assert await fork.scores() == []
        assert (await fork.why()).scores == ()
        with pytest.raises(CommandRejected, match="execution 1 belongs to 's': score it there"):
            await fork.score("helpful", 1, by="ana")
        await fork.send(AGENT, "and 2 + 2?")
        await fork.score("helpful", 0, by="ana")
        assert said(await fork.scores()) == ["helpful = 0 by ana"]
        assert said(await trail.session("s").scores()) == ["helpful = 1 by ana"]


async def test_what_is_not_there_is_not_scored_and_what_was_erased_is_gone_with_its_scores(store_url: str) -> None:
    async with opened(store_url) as trail:
        with pytest.raises(SessionNotFound):
            await trail.session("s").score("helpful", 1, by="ana")
        await trail.run(AGENT, "1 + 2?", session="s")
        await trail.session("s").score("helpful", 1, by="ana", comment="a secret of Bob")
        await trail.erase("s", by="ana", reason="asked")
        for coming in (trail.session("s").scores(), trail.session("s").score("helpful", 1, by="ana")):
            with pytest.raises(SessionErased):
                await coming


async def test_a_run_of_a_workflow_is_scored_the_same_way(store_url: str) -> None:
    async with opened(store_url) as trail:
        flow = Workflow("t").noop("a").build()
        await trail.run(flow, session="s")
        await trail.flow("s").score("right", True, by="ana")
        assert said(await trail.handle("flow:s").scores()) == ["right = yes by ana"]
        assert said((await trail.flow("s").why()).scores) == ["right = yes by ana"]


async def test_a_new_score_of_an_old_session_keeps_it_from_no_archive_and_goes_into_it(
    store_url: str, tmp_path: Path
) -> None:
    clock, folder = ManualClock(), tmp_path / "archive"
    async with Steptrail.open(store_url, clock=clock) as trail:
        await trail.run(AGENT, "1 + 2?", session="s")
        clock.advance(2 * 86_400)
        await trail.session("s").score("helpful", 1, by="ana", comment="clear")
        done = await trail.retain(older_than=timedelta(days=1), archive=folder, dry_run=False)
        assert [each.stream for each in done.erased] == ["agent:s"]
    async with Steptrail.open(f"sqlite:///{tmp_path / 'look.db'}") as look:
        await unarchived(look, [ArchiveFile.proved(file_of(folder, "agent:s"))])
        assert said(await look.session("s").scores()) == ["helpful = 1 by ana (clear)"]


def test_the_blocking_twin_scores_too(tmp_path: Path) -> None:
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        trail.run(AGENT, "1 + 2?", session="s")
        trail.session("s").score("helpful", 1, by="ana")
        assert said(trail.session("s").scores()) == ["helpful = 1 by ana"]
