"""What waits costs nobody anything: a worker reads what it takes up, however many sessions wait."""

import asyncio
import os
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from steptrail import Steptrail
from steptrail.domain.kernel.index_query import DUE_FIRST, IndexQuery
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.shared.summary import RunSummary
from steptrail.errors import StoreUnavailable
from steptrail.infrastructure.store import open_store
from steptrail.projections.questions import ASKS_PEOPLE
from steptrail.runtime.kernel import looking
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.due_look import DueLook, Pace
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, NotTaken
from steptrail.runtime.kernel.ports import EventStore, Lease
from tests.harness.waiting_rows import WaitingRows
from tests.runner.kit import agent_of
from tests.trail.workers import PATIENCE, Desk, ended, until
from tests.views.test_plans import accesses

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
HOUR = 3_600_000_000
NOW = 1_000 * HOUR

ASKED = {
    "a worker: the first that are due": IndexQuery(due_by=NOW, due_after=DUE_FIRST, roots=True, limit=24),
    "a worker: those after them": IndexQuery(due_by=NOW, due_after=(7, "agent:7"), roots=True, limit=48),
    "a worker: those without owner, and those that wait for what has moved": IndexQuery(
        moved_by=NOW, unless_leased=["agent:1"], roots=True, limit=500
    ),
    "a worker: those that a run left behind": IndexQuery(left_behind=True),
    "a list: the newest that are due": IndexQuery(due_by=NOW, moved_by=NOW, unless_leased=["agent:1"], limit=100),
    "a list: those after them": IndexQuery(
        due_by=NOW, moved_by=NOW, unless_leased=["agent:1"], limit=100, after="agent:7"
    ),
    "a list: the newest of a tenant": IndexQuery(tenant="acme", limit=51),
    "a list: those after them, of a tenant": IndexQuery(tenant="acme", limit=51, after="agent:7"),
    "an inbox: that of a tenant": IndexQuery(tenant="acme", waits_for=ASKS_PEOPLE, waits_at=NOW, limit=51),
}


class Counted:
    """A store that counts the looks, the rows with which the index answers, and questions about sessions that wait."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.looks = self.rows = self.versions = 0
        self.acquired: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        rows = await self._store.index(asked)
        self.looks += asked.due_after == DUE_FIRST
        self.rows += len(rows)
        return rows

    async def version(self, stream: str) -> int:
        self.versions += "sleeps" in stream
        return await self._store.version(stream)

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> Lease:
        self.acquired[stream] += 1
        return await self._store.acquire(stream, owner=owner, take_over=take_over)


async def counting(url: str, waiting: int, *, later: int) -> Counted:
    """Open a store in which so many sessions wait, a third of them until `later`."""
    await open_store(url).close()
    await asyncio.to_thread(lambda: WaitingRows(url).add(waiting, later=later))
    return Counted(open_store(url))


def ours(store: Counted) -> Steptrail:
    return Steptrail(Environment(store=cast("EventStore", store)))


@pytest.mark.acceptance("9.1-1")
async def test_sessions_that_wait_wake_nobody_and_are_not_read(store_url: str) -> None:
    store = await counting(store_url, 9_000, later=SystemClock().utc() + HOUR)
    agent = agent_of(["Done."]).build()
    async with ours(store) as trail:
        async with trail.work(agent) as worker:
            await until(lambda: store.looks >= 2)
            assert store.rows == 0
            await trail.start(agent, "go", session="one")
            await ended(trail, "one")
            seen = store.looks
            await until(lambda: store.looks >= seen + 2)
            assert (worker.running, worker.left) == ((), {})
        assert store.acquired.keys() == {"agent:one"}
        assert await trail.due() == []


@pytest.mark.usefixtures("often")
async def test_a_store_that_is_away_is_told_of_more_and_more_seldom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(Counted):
        failed = 0

        async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
            if asked.due_after == DUE_FIRST and self.failed < 10:
                self.failed += 1
                raise StoreUnavailable("the store is away")
            return await super().index(asked)

    agent = agent_of(["Done."]).build()
    async with ours(Away(open_store(f"sqlite:///{tmp_path / 'runs.db'}"))) as trail, trail.work(agent):
        await trail.start(agent, "go", session="one")
        await ended(trail, "one")
    assert caplog.text.count("a worker could not look for what is due") == 4


@pytest.mark.usefixtures("often")
async def test_what_is_due_for_others_is_passed_by_and_asked_about_once(store_url: str) -> None:
    store = await counting(store_url, 900, later=0)
    agent = agent_of(["Done."]).build()
    told: Counter[str] = Counter()
    async with ours(store) as trail:
        await trail.start(agent, "go", session="one")
        async with trail.work(agent, concurrency=2, on_left=lambda row, _: told.update([row.session_id])) as worker:
            await ended(trail, "one")
            await until(lambda: len(worker.left) == 300)
            seen, asked = store.looks, store.versions
            await until(lambda: store.looks >= seen + 2)
        assert store.versions == asked
        assert set(told.values()) == {1}
        assert store.acquired.keys() == {"agent:one"}


async def test_what_the_runs_of_a_tenant_ask_is_found_in_the_index_however_many_others_ask(store_url: str) -> None:
    class Unread(Counted):
        def log(self, **_: Any) -> AsyncIterator[LogEntry]:
            raise AssertionError("the log was read for a list")

    # given
    await open_store(store_url).close()
    await asyncio.to_thread(lambda: WaitingRows(store_url).add(900, later=0))
    desk, store = Desk(), Unread(open_store(store_url))
    async with ours(store) as trail:
        await trail.run(desk.agent(first="pay"), "go", session="ours", metadata={"tenant": "acme"})
        await trail.run(desk.agent(first="pay"), "go", session="theirs", metadata={"tenant": "other"})
        # when
        store.rows = 0
        asked = await trail.inbox(tenant="acme")
    # then
    assert [each.stream for each in asked] == ["agent:ours"]
    assert store.rows == 1


@pytest.mark.usefixtures("often")
async def test_what_waits_for_a_place_of_its_tenant_is_not_read(tmp_path: Path) -> None:
    class Read(Counted):
        def __init__(self, store: EventStore) -> None:
            super().__init__(store)
            self.asked_of: Counter[str | None] = Counter()

        def log(self, *, stream: str | None = None, **asked: Any) -> AsyncIterator[LogEntry]:
            self.asked_of[stream] += 1
            return self._store.log(stream=stream, **asked)

        async def version(self, stream: str) -> int:
            self.asked_of[stream] += 1
            return await super().version(stream)

    desk, store = Desk(), Read(open_store(f"sqlite:///{tmp_path / 'runs.db'}"))
    desk.gate.clear()
    async with ours(store) as trail, trail.work(desk.agent(), per_tenant=1) as worker:
        for name in ("first", "second", "third"):
            await trail.start(desk.agent(), "go", session=name, metadata={"tenant": "acme"})
        await until(lambda: desk.inside == 1)
        store.asked_of.clear()
        seen = store.looks
        await until(lambda: store.looks >= seen + 3)
        assert store.asked_of.keys() <= set(worker.running)
        desk.gate.set()
        await ended(trail, "first", "second", "third")
    assert desk.most == 1


async def test_a_page_of_what_is_due_reads_no_more_than_the_page(store_url: str) -> None:
    store = await counting(store_url, 3_000, later=0)
    async with ours(store) as trail:
        newest = await trail.due(limit=5)
        assert [row.session_id for row in newest] == [f"sleeps-{number}" for number in range(1_000, 995, -1)]
        assert store.rows == 5


async def test_a_look_yields_the_first_that_are_due_and_reads_few_more(store_url: str) -> None:
    store = await counting(store_url, 3_000, later=0)
    looks = DueLook(cast("EventStore", store), lambda: 0.0, least=1.0)
    async with aclosing(looks.rows(NOW, NOW, 3)) as rows:
        assert [(await anext(rows)).session_id for _ in range(3)] == ["sleeps-1", "sleeps-2", "sleeps-3"]
    assert store.rows <= 3 + 8
    await store.close()


async def test_a_look_passes_rows_by_that_a_hand_has_spoilt(tmp_path: Path) -> None:
    store = await counting(f"sqlite:///{tmp_path / 'runs.db'}", 120, later=0)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as spoiling, spoiling:
        spoiling.execute("UPDATE streams SET status = 'unheard of' WHERE id IN ('agent:sleeps-5', 'agent:sleeps-11')")
    looks = DueLook(cast("EventStore", store), lambda: 0.0, least=1.0)
    async with asyncio.timeout(PATIENCE), aclosing(looks.rows(NOW, NOW, 3)) as rows:
        seen = [row.session_id async for row in rows]  # the 11th is the last of the first page
    assert seen == [f"sleeps-{number}" for number in range(1, 41) if number not in {5, 11}]
    await store.close()


def test_looking_takes_a_tenth_of_the_time_at_most() -> None:
    now = 100.0
    pace = Pace(lambda: now, least=0.05)
    assert pace.rest == 0
    for took, rest in ((0.0, 0.05), (0.005, 0.045), (0.3, 2.7), (5.0, 5.0)):
        pace.begin()
        now += took
        pace.end()
        assert pace.rest == pytest.approx(rest)
        now += pace.rest
        assert pace.rest == 0


async def test_to_begin_with_what_was_found_is_no_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, rests = 0.0, list[float]()

    class Noted(DueLook):
        @property
        def rest(self) -> float:
            rests.append(super().rest)
            return min(rests[-1], 0.01)

    async def slowly(hands: Hands, row: RunSummary) -> "asyncio.Task[None] | NotTaken":
        nonlocal now
        now += 1.0
        return await take(hands, row)

    take = Hands.take
    monkeypatch.setattr(Hands, "take", slowly)
    monkeypatch.setattr(looking, "DueLook", Noted)
    monkeypatch.setattr(looking, "time", SimpleNamespace(monotonic=lambda: now))
    agent, sessions = agent_of(["Done."]).build(), ("one", "two", "three")
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for session in sessions:
            await trail.start(agent, "go", session=session)
        async with trail.work(agent):
            await ended(trail, *sessions)
            seen = len(rests)
            await until(lambda: len(rests) > seen)
    assert now >= len(sessions)
    assert max(rests) == pytest.approx(0.05)


def searches(plan: Sequence[str]) -> Sequence[str]:
    """Return how a plan of SQLite gets at rows, without how it keeps what it has found."""
    return [line for line in plan if re.match(r"(SCAN|SEARCH) (?!b$)", line)]


async def test_the_questions_of_a_look_are_answered_from_indexes(store_url: str) -> None:
    await open_store(store_url).close()

    is_server = store_url.startswith("postgresql:")

    def explained() -> str:
        rows = WaitingRows(store_url)
        rows.add(3_000, later=2 * NOW)
        plans = {what: rows.plan(asked) for what, asked in ASKED.items()}
        read = accesses if is_server else searches
        return "".join(f"{what}\n" + "".join(f"    {line}\n" for line in read(plan)) for what, plan in plans.items())

    found = await asyncio.to_thread(explained)
    path = GOLDEN / ("looks_postgres.txt" if is_server else "looks_sqlite.txt")
    if os.environ.get("STEPTRAIL_WRITE_PLANS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")
