"""The engine on procrastinate keeps the promises of the port on a real server."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager

from steptrail.errors import ConfigurationError, StoreUnavailable
from steptrail.infrastructure.fleet.opening import engine_of
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.infrastructure.views.postgres import LOCK_OF_VIEWS
from steptrail.runtime.kernel.engine import TopicStatus, Wake, WorkerReport
from tests.harness.pooler import pooler
from tests.harness.postgres_server import PostgresServer

TOPIC = "agent:triage"


def a_wake(stream: str = "agent:s", *, topic: str = TOPIC, seconds: float = 0.0) -> Wake:
    return Wake(stream=stream, topic=topic, seconds=seconds)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[ProcrastinateEngine]:
    engine = ProcrastinateEngine(url, heartbeat=0.2, stalled_after=0.6, poll=0.1)
    try:
        async with asyncio.timeout(120):
            await engine.open()
            yield engine
    finally:
        await engine.close()


class Woken:
    """A worker that keeps what it is woken for, and holds each for as long as its gate is closed."""

    def __init__(self, engine: ProcrastinateEngine, *topics: str, concurrency: int = 4) -> None:
        self.came: list[str] = []
        self.inside = self.most = 0
        self.gate, self._until = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self._running = asyncio.create_task(
            engine.run(self._handle, topics=topics or (TOPIC,), concurrency=concurrency, until=self._until)
        )

    async def _handle(self, wake: Wake) -> None:
        self.came.append(wake.stream)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.gate.wait()
        finally:
            self.inside -= 1

    async def until(self, is_so: Callable[["Woken"], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so(self):
                await asyncio.sleep(0.01)

    async def __aenter__(self) -> "Woken":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._until.set()
        async with asyncio.timeout(60):
            await self._running


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, options="-c search_path=steptrail_fleet") as connection:
        return connection.execute(statement.encode()).fetchall()


READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'procrastinate_jobs'"
JOBS = "SELECT queueing_lock, queue_name, scheduled_at IS NOT NULL FROM procrastinate_jobs ORDER BY id"


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
async def test_a_machine_that_is_gone_is_not_waited_for_longer_than_an_answer(postgres_url: str) -> None:
    """It says nothing, not even that it is gone, and a worker would wait for its next wake for a quarter of an hour."""
    async with opened(f"{postgres_url}?answer_timeout=7") as engine:
        pool = engine._pool  # pyright: ignore[reportPrivateUsage]
        assert pool is not None
        async with pool.connection() as connection:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7_000


async def test_workers_are_not_undone_in_favour_of_each_other_in_a_database_that_is_set_to_serialize(
    postgres_url: str,
) -> None:
    options = "options=-c%20default_transaction_isolation%3Dserializable"
    async with opened(f"{postgres_url}?{options}") as engine:
        asked = await engine._ask("SHOW transaction_isolation", ())  # pyright: ignore[reportPrivateUsage]
    assert asked == [("read committed",)]


async def test_many_processes_make_the_schema_at_once_and_one_is_there(postgres_url: str) -> None:
    engines = [ProcrastinateEngine(postgres_url) for _ in range(8)]
    await asyncio.gather(*(engine.wake(a_wake(f"agent:{number}")) for number, engine in enumerate(engines)))
    for engine in engines:
        await engine.close()
        await engine.close()
    assert len(rows(postgres_url, JOBS)) == 8


async def test_the_schema_is_made_while_somebody_changes_the_read_models(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as changing:
        changing.execute(LOCK_OF_VIEWS)
        async with opened(postgres_url) as engine:
            await engine.wake(a_wake())
    assert len(rows(postgres_url, JOBS)) == 1


async def test_a_stream_has_one_wake_that_waits_the_earliest_and_of_its_newest_topic(postgres_url: str) -> None:
    others = a_wake(topic="agent:other")
    async with opened(postgres_url) as engine:
        for wake, stored in [
            (a_wake(seconds=50), [("agent:s", TOPIC, True)]),
            (a_wake(seconds=90), [("agent:s", TOPIC, True)]),
            (a_wake(), [("agent:s", TOPIC, False)]),
            (a_wake(seconds=50), [("agent:s", TOPIC, False)]),
            (others, [("agent:s", "agent:other", False)]),
        ]:
            await engine.wake(wake)
            assert rows(postgres_url, JOBS) == stored
        assert await engine.wake_missed([others, a_wake("agent:t"), a_wake("agent:u", seconds=9)]) == 2
        assert await engine.wake_missed([a_wake("agent:u")]) == 0, "it comes in a moment"
        assert await engine.wake_missed([a_wake("agent:t", topic="agent:other")]) == 1, "nobody is woken by the first"
        assert rows(postgres_url, JOBS)[1:] == [("agent:u", TOPIC, True), ("agent:t", "agent:other", False)]
        assert await engine.wake_missed([a_wake("agent:t", topic="agent:other")]) == 0
        await engine.cancel("agent:s")
        await engine.cancel("agent:nobody")
        assert [row[0] for row in rows(postgres_url, JOBS)] == ["agent:u", "agent:t"]


async def test_a_wake_comes_once_at_its_time_to_a_worker_of_its_topic_and_leaves_nothing(postgres_url: str) -> None:
    async with opened(postgres_url) as engine, opened(postgres_url) as other:
        await engine.wake(a_wake("agent:now"))
        await engine.wake(a_wake("agent:later", seconds=0.5))
        await engine.wake(a_wake("agent:strange", topic="agent:nobody"))
        async with Woken(engine) as one, Woken(other) as two:
            await one.until(lambda _: len(one.came) + len(two.came) == 2)
            await asyncio.sleep(0.3)
            assert sorted(one.came + two.came) == ["agent:later", "agent:now"]
        assert [row[0] for row in rows(postgres_url, JOBS)] == ["agent:strange"]


async def test_no_more_are_handled_at_once_than_asked_for_and_none_of_one_stream_twice(postgres_url: str) -> None:
    async with opened(postgres_url) as engine, Woken(engine, concurrency=3) as worker:
        worker.gate.clear()
        for number in range(6):
            await engine.wake(a_wake(f"agent:{number}"))
        await worker.until(lambda it: it.inside == 3)
        first = worker.came[0]
        await engine.wake(a_wake(first))  # waits for the one that is being handled
        assert await engine.wake_missed([a_wake(first)]) == 0
        await asyncio.sleep(0.3)
        worker.gate.set()
        await worker.until(lambda it: len(it.came) == 7)
        assert (worker.most, worker.came.count(first)) == (3, 2)


@pytest.mark.parametrize("error", [MemoryError, ConnectorException])
async def test_what_a_dead_worker_had_in_hand_is_woken_anew(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    look, tries = JobManager.get_stalled_jobs, 0

    async def at_second_try(manager: JobManager, **given: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise error
        return await look(manager, **given)

    monkeypatch.setattr(JobManager, "get_stalled_jobs", at_second_try)
    async with opened(postgres_url) as engine:
        await engine.wake(a_wake())
        rows(postgres_url, "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING 1")
        taken = "SELECT id FROM procrastinate_fetch_job_v2(NULL, (SELECT max(id) FROM procrastinate_workers))"
        (old,) = rows(postgres_url, taken)
        async with Woken(engine) as worker:
            await worker.until(lambda it: it.came == ["agent:s"])
        # It wakes up, and what it says of its job meets another one's.
        with pytest.raises(psycopg.errors.RaiseException):
            rows(postgres_url, f"SELECT procrastinate_finish_job_v1({old[0]}, 'succeeded', true)")


async def test_a_worker_goes_on_when_its_server_was_restarted() -> None:
    # A server of its own: all others of this process share one.
    with PostgresServer() as server:
        async with opened(server.url(server.create_database())) as engine, Woken(engine) as worker:
            worker.gate.clear()
            await engine.wake(a_wake("agent:before"))
            await worker.until(lambda it: it.inside == 1)
            await asyncio.to_thread(server.stop)
            worker.gate.set()  # its job cannot be ended now
            await worker.until(lambda it: it.inside == 0)
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await engine.wake(a_wake("agent:after"))
                        await engine.wake(a_wake("agent:before"))
                        break
                    except StoreUnavailable:
                        await asyncio.sleep(0.1)
            await worker.until(lambda it: "agent:after" in it.came and it.came.count("agent:before") >= 2)


async def test_a_server_that_is_silent_is_not_waited_for_without_end() -> None:
    # A server of its own, as above.
    with PostgresServer() as server:
        async with opened(f"{server.url(server.create_database())}?answer_timeout=5") as engine:
            await engine.wake(a_wake())
            with server.silent():
                async with asyncio.timeout(60):
                    asked = await asyncio.gather(engine.wake(a_wake()), engine.status(), return_exceptions=True)
            assert all(isinstance(each, StoreUnavailable) for each in asked)
            assert all("try again: there was no answer within 5 s" in str(each) for each in asked)
            await engine.wake(a_wake("agent:u"))


async def test_a_wake_whose_end_could_not_be_stored_does_not_keep_its_stream(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, failures = JobManager.finish_job, [ConnectorException("no line")]

    async def failing_once(*given: Any, **named: Any) -> None:
        if failures:
            raise failures.pop()
        await finish(*given, **named)

    monkeypatch.setattr(JobManager, "finish_job", failing_once)
    async with opened(postgres_url) as engine, Woken(engine) as worker:
        await engine.wake(a_wake())
        await worker.until(lambda it: it.came == ["agent:s"])
        await engine.wake(a_wake())
        await worker.until(lambda it: len(it.came) >= 2)
    assert failures == []


async def test_a_server_that_stays_away_is_told_of_more_and_more_seldom(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries, enough = 0, asyncio.Event()

    async def fails(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        if tries == 20:
            enough.set()
        raise ConnectorException from OSError("port 5432 is refused\n\tIs the server running?")

    monkeypatch.setattr("steptrail.infrastructure.fleet.procrastinate._TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("procrastinate.App.run_worker_async", fails)
    async with opened(postgres_url) as engine, Woken(engine):
        await enough.wait()
    said = [record.getMessage() for record in caplog.records if "wakes nobody here" in record.getMessage()]
    assert len(said) == 5  # the 1st, 2nd, 4th, 8th and 16th
    assert said[0].endswith("tried again: port 5432 is refused Is the server running?")
    assert "said 16 times" in said[-1]


async def test_names_of_any_length_and_letters_are_queues(postgres_url: str) -> None:
    topics = ["agent:" + "a" * 500, "agent:" + "ä" * 40, 'agent:"; DROP TABLE x; --', "flow:% %s"]
    async with opened(postgres_url) as engine, Woken(engine, *topics) as worker:
        for number, topic in enumerate(topics):
            await engine.wake(a_wake(f"agent:'{number}\"%s", topic=topic))
        await worker.until(lambda it: len(it.came) == len(topics))


async def test_what_waits_and_who_works_is_told(postgres_url: str) -> None:
    report = WorkerReport(worker="m:1", topics=(TOPIC,), concurrency=8, began_at=1, seen_at=2, running=("agent:s",))
    async with opened(postgres_url) as engine:
        before = round((time.time() - 1) * 1e6)
        await engine.wake(a_wake())
        await engine.wake(a_wake("agent:later", seconds=50))
        await engine.wake(a_wake("agent:strange", topic="agent:nobody"))
        await engine.report(report, "m:1")
        status = await engine.status()
        assert status.workers == [report]
        assert [(name, each.waiting, each.later, each.is_served) for name, each in status.topics.items()] == [
            ("agent:nobody", 1, 0, False),
            (TOPIC, 1, 1, True),
        ]
        assert before < (status.topics[TOPIC].since or 0) <= round((time.time() + 1) * 1e6)
        await engine.report(None, "m:1")
        await engine.cancel("agent:strange")
        await engine.cancel("agent:s")
        await engine.cancel("agent:later")
        assert (await engine.status()).topics == {}
        await engine.report(report, "m:1")
        assert (await engine.status()).topics == {TOPIC: TopicStatus(is_served=True)}


async def test_a_schema_that_is_not_ours_is_refused_and_left(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE SCHEMA steptrail_fleet")
        connection.execute("CREATE TABLE steptrail_fleet.mine (x int)")
    engine = ProcrastinateEngine(postgres_url)
    with pytest.raises(StoreUnavailable, match="is not one of an engine"):
        await engine.open()
    assert rows(postgres_url, "SELECT count(*) FROM mine") == [(0,)]
    await engine.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_sessions_is_refused_and_nobody_finds_what_was_set(
    postgres_server: PostgresServer, postgres_database: str, mode: str
) -> None:
    with pooler(postgres_server.port, mode) as port:
        url = f"postgresql://anybody@127.0.0.1:{port}/{postgres_database}"
        engine = ProcrastinateEngine(url)
        with pytest.raises(StoreUnavailable, match="is behind a pooler that shares sessions between connections"):
            await engine.open()
        await engine.close()
        with psycopg.connect(url, autocommit=True) as other:
            assert other.execute("SHOW search_path").fetchall() == [('"$user", public',)]


async def test_it_works_through_a_pooler_in_session_mode(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    with pooler(postgres_server.port, "session") as port:
        url = f"postgresql://anybody@127.0.0.1:{port}/{postgres_database}"
        async with opened(url) as engine, Woken(engine) as worker:
            await engine.wake(a_wake())
            await worker.until(lambda w: w.came == ["agent:s"])


async def test_a_server_that_is_away_is_said_in_a_line() -> None:
    away = ProcrastinateEngine("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    with pytest.raises(StoreUnavailable, match=r"the engine procrastinate in postgresql://nobody@127.0.0.1:1/none"):
        await away.open()
    with pytest.raises(ConfigurationError, match="heartbeat < stalled_after"):
        ProcrastinateEngine("postgresql://h/d", heartbeat=5, stalled_after=5)


@pytest.mark.parametrize("setting", ["heartbeat", "stalled_after", "poll"])
@pytest.mark.parametrize("wrong", ["5", None, 0, -1, float("nan"), float("inf"), True])
def test_seconds_that_cannot_be_are_refused(setting: str, wrong: Any) -> None:
    said = f"^{setting} is a number of seconds above 0(, a century at most)?, not"
    with pytest.raises(ConfigurationError, match=said):
        ProcrastinateEngine("postgresql://h/d", **{setting: wrong})


def test_a_setting_of_an_address_that_is_no_number_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"heartbeat, .* are numbers of seconds: .*'abc'$"):
        engine_of("procrastinate?heartbeat=abc&poll=1", "postgresql://h/d")


def test_the_address_of_an_engine_is_a_text() -> None:
    wrong: Any = None
    with pytest.raises(ConfigurationError, match="the address of an engine is a text, not NoneType"):
        ProcrastinateEngine(wrong)


async def test_a_user_without_the_right_is_told_which(postgres_server: PostgresServer) -> None:
    database = postgres_server.create_database()
    postgres_server.execute("DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN")
    engine = ProcrastinateEngine(postgres_server.url(database, user="poor"))
    with pytest.raises(
        StoreUnavailable, match="was refused: grant its user the right, or `CREATE SCHEMA steptrail_fleet"
    ):
        await engine.open()
    await engine.close()


async def test_a_wake_is_fetched_without_a_look_at_all_others_when_thousands_have_just_come(postgres_url: str) -> None:
    read = list[int]()
    async with opened(postgres_url) as engine:
        # given
        wakes = [a_wake(f"agent:{number}") for number in range(2_000)]
        assert await engine.wake_missed(wakes) == len(wakes)
        assert engine._pool is not None  # pyright: ignore[reportPrivateUsage]
        async with engine._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
            # when
            for statement in (READ, f"SELECT procrastinate_fetch_job_v2(ARRAY['{TOPIC}']::varchar[], NULL)", READ):
                (found,) = await (await connection.execute(statement)).fetchone() or (0,)
                read.append(found)
    # then
    assert read[2] - read[0] <= 20


async def test_a_server_compiles_none_of_our_short_statements(postgres_url: str) -> None:
    async with opened(postgres_url) as engine:
        assert engine._pool is not None  # pyright: ignore[reportPrivateUsage]
        async with engine._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
            plan = await connection.execute("EXPLAIN DELETE FROM fleet_workers WHERE seen < now()")
            lines = [str(line) for (line,) in await plan.fetchall()]
    assert "Seq Scan" in "".join(lines)
    assert "JIT:" not in lines
