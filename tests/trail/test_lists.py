"""Lists ask the index, which says what the log says: page by page, with marks, and never late."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from steptrail import Steptrail, tool
from steptrail.domain.agent.standing import summary
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.errors import ConfigurationError, CorruptRecord, RecordTooNew, SessionNotFound
from steptrail.events import StepStarted
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.cli.main import main
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import call
from tests.processes.agents.interposed import Interposed
from tests.runner.kit import Crash, agent_of, crash_at

PAGE = 3


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def ids(rows: Sequence[RunSummary]) -> list[str]:
    return [row.session_id for row in rows]


async def test_pages_hold_every_session_once_also_when_sessions_move_between_two_pages(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for number in range(8):
            await trail.run(agent_of(["hello"]).build(), "hi", session=f"s{number}")
        seen = list(await trail.runs(limit=PAGE))
        while page := await trail.runs(limit=PAGE, after=seen[-1].session_id):
            seen += page
            await trail.session("s0").send(agent_of(["again"]).build(), "and?")
        assert ids(seen) == [f"s{number}" for number in reversed(range(8))]
        with pytest.raises(SessionNotFound):
            await trail.runs(after="nobody")


async def test_a_list_holds_what_it_is_asked_for(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["hello"]).build(), "hi", session="done")
        await trail.run(agent_of([call("pay", amount=3)]).with_tools(pay).build(), "pay", session="asks")
        await trail.run(agent_of([ValueError("no")]).build(), "hi", session="failed")
        assert ids(await trail.runs(status="failed")) == ["failed"]
        assert ids(await trail.runs(stop_reason="completed")) == ["done"]
        assert ids(await trail.runs(waits_for="approval")) == ["asks"]
        assert ids(await trail.runs(agent="somebody else")) == []
        with pytest.raises(ConfigurationError, match="there are pending, in_progress"):
            await trail.runs(status="broken")


async def test_an_approval_that_was_given_is_due_in_the_list_at_once(store_url: str) -> None:
    agent = agent_of([call("pay", amount=3), "Paid."]).with_tools(pay).build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        asked = await trail.run(agent, "pay", session="s")
        (row,) = await other.runs()
        assert (row.status, row.standing, row.waits_for) == (
            ExecutionStatus.WAITING,
            StandingState.RESTING,
            "approval",
        )
        assert ids(await other.due()) == []
        await trail.session("s").approve(asked.state.open_approvals[0].id, by="ana")
        assert ids(await other.due()) == ["s"]
        assert (await other.runs())[0].waits_for is None
        await trail.session("s").resume(agent)
        assert ids(await other.due()) == []
        (row,) = await other.runs()
        assert row == summary(await other.session("s").state())


async def test_a_run_that_ends_between_the_looks_at_index_and_leases_is_not_taken_for_crashed() -> None:
    store, called, answer = Interposed(), asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold the line."""
        called.set()
        await answer.wait()
        return "held"

    holding = agent_of([call("hold"), "Done."]).with_tools(hold).build()
    async with Steptrail(Environment(store=store)) as trail:
        running = asyncio.create_task(trail.run(holding, "go", session="s"))
        await called.wait()

        async def ends() -> None:
            answer.set()
            await running

        store.before_leased = ends
        (row,) = await trail.runs()
        assert (row.status, row.is_crashed) == (ExecutionStatus.COMPLETED, False)


async def test_a_run_whose_process_died_is_marked_as_crashed_until_somebody_takes_it_up(store_url: str) -> None:
    async with Steptrail(Environment(store=open_store(store_url), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.run(agent_of(["hello"]).build(), "hi", session="s")
    async with Steptrail.open(store_url) as trail:
        (row,) = await trail.runs()
        assert (row.status, row.is_crashed) == (ExecutionStatus.IN_PROGRESS, True)
        lease = await trail.store.acquire("agent:s", owner="somebody")
        assert not (await trail.runs())[0].is_crashed
        await lease.release()
        await trail.session("s").resume(agent_of(["hello"]).build())
        assert not (await trail.runs())[0].is_crashed


async def test_a_session_that_somebody_could_not_read_is_marked_until_it_is_written_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(agent_of(["hello"]).build(), "hi", session="s")
        await trail.run(agent_of(["hello"]).build(), "hi", session="sound")
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as hand:
        (state,) = hand.execute("SELECT state FROM events WHERE stream = 1 AND version = 3").fetchone()
        hand.execute("UPDATE events SET state = '{' WHERE stream = 1 AND version = 3")
        async with Steptrail.open(url) as trail:
            with pytest.raises(CorruptRecord):
                await trail.session("s").events()
            assert [row.damage is not None for row in await trail.runs()] == [False, True]
            hand.execute("UPDATE events SET state = ? WHERE stream = 1 AND version = 3", (state,))
            await trail.session("s").send(agent_of(["again"]).build(), "and?")
            assert [row.damage for row in await trail.runs()] == [None, None]


async def test_a_session_with_events_of_a_newer_version_is_not_marked_by_an_older_one_that_reads_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Steptrail(Environment(store=open_store(store_url), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.run(agent_of(["hello"]).build(), "hi", session="s")
    with monkeypatch.context() as older:
        older.delitem(EVENT_TYPES, StepStarted.TYPE)
        async with Steptrail.open(store_url) as trail:
            with pytest.raises(RecordTooNew, match=r"'step\.started\.v1' is not known here"):
                await trail.session("s").events()
    async with Steptrail.open(store_url) as trail:
        assert [row.damage for row in await trail.runs()] == [None]
        assert ids(await trail.due()) == ["s"]


async def test_a_row_that_a_hand_has_spoilt_hides_no_other_and_doctor_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        for name in ("one", "two", "three"):
            await trail.run(agent_of([call("pay", amount=3)]).with_tools(pay).build(), "pay", session=name)
        right = await trail.runs()
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as hand:
        hand.execute("UPDATE streams SET status = 'odd' WHERE id = 'agent:one'")
        hand.execute("UPDATE streams SET version = NULL WHERE id = 'agent:two'")
        hand.execute("DELETE FROM waits WHERE stream = (SELECT number FROM streams WHERE id = 'agent:three')")
    async with Steptrail.open(url) as trail:
        spoilt = await trail.runs()
        assert ids(spoilt) == ["three", "one"]
        assert "its row in the index cannot be read" in (spoilt[1].damage or "")
        found = (await examine(open_store(url, read_only=True))).findings
        assert {(each.check, each.stream) for each in found} == {
            ("index", f"agent:{name}") for name in ("one", "two", "three")
        }
        (three,) = (each.what for each in found if each.stream == "agent:three")
        assert three == "lists show another waits of it than its events say: `steptrail doctor --reindex`"
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["--store", url, "doctor"]) == 1
    assert "steptrail doctor --reindex" in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["--store", url, "doctor", "--reindex"]) == 0
    async with Steptrail.open(url) as trail:
        assert list(await trail.runs()) == list(right)
        assert (await examine(open_store(url, read_only=True))).findings == []


async def test_mending_an_index_leaves_a_row_that_is_newer(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["hello"]).build(), "hi", session="s")
        (newer,) = await trail.runs()
    store = open_store(store_url)
    await store.list_anew(structs.replace(newer, status=ExecutionStatus.FAILED, version=newer.version - 1))
    assert list(await store.index(IndexQuery())) == [newer]
    await store.list_anew(structs.replace(newer, status=ExecutionStatus.FAILED))
    assert (await store.index(IndexQuery()))[0].status is ExecutionStatus.FAILED
    await store.close()


def test_the_command_line_lists_pages_marks_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def stored() -> None:
        async with Steptrail(Environment(store=open_store(url), reach=crash_at("before-inference"))) as dying:
            with pytest.raises(Crash):
                await dying.run(agent_of(["hello"]).build(), "hi", session="died")
        async with Steptrail.open(url) as trail:
            await trail.run(agent_of(["hello"]).build(), "hi", session="done")

    asyncio.run(stored())
    assert main(["--store", url, "runs", "--limit", "1"]) == 0
    told = capsys.readouterr()
    assert "done" in told.out
    assert f"`steptrail runs --limit 1 --after done --store {url}` lists them" in told.err
    assert main(["--store", url, "runs", "--after", "done"]) == 0
    assert "in_progress, crashed" in capsys.readouterr().out
    assert main(["--store", url, "--json", "runs", "--status", "in_progress"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["sessionId"], row["crashed"], row["waitsFor"]) == ("died", True, None)
    assert main(["--store", url, "--json", "runs", "--status", "crashed"]) == 0
    assert [row["sessionId"] for row in json.loads(capsys.readouterr().out)] == ["died"]
    assert main(["--store", url, "--json", "runs", "--status", "crashed", "--after", "died"]) == 0
    assert json.loads(capsys.readouterr().out) == []
