"""Which thread writes a commit, and what comes of it when somebody else is in the way."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, closing, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from steptrail.domain.errors import ConcurrencyConflict, SessionBusy, StoreUnavailable
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.lease import FileLeases
from steptrail.infrastructure.store.postgres.leases import PostgresLeases
from steptrail.testing.store_contract import Noted, commit_of
from tests.integration.store.kit import note_statements, opened

HERE, WRITER, READER = threading.main_thread().name, "steptrail-writer", "steptrail-reader"
KEEPER = READER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def wrote(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that committed, in order."""
    names: list[str] = []

    def note(statement: str) -> None:
        if statement == "COMMIT":
            names.append(threading.current_thread().name)

    note_statements(monkeypatch, note)
    return names


@pytest.fixture
async def store(path: Path, wrote: list[str]) -> AsyncIterator[RecorderEventStore]:
    """A store on which every disk is quick, and that has written once and was asked once."""
    store = opened(path, quick=inf)
    await append(store, "agent:first", 1)
    await store.version("agent:first")
    wrote.clear()
    yield store
    await store.close()


async def append(store: RecorderEventStore, stream: str, count: int, after: StreamHead = EMPTY_STREAM) -> StreamHead:
    """Append commits of one event, one after another."""
    for _ in range(count):
        after = await store.append(stream, after, commit_of(f"c{after.version}", Noted(text="x")))
    return after


async def test_the_only_run_of_a_process_writes_in_the_thread_of_its_loop(
    store: RecorderEventStore, wrote: list[str]
) -> None:
    lease = await store.acquire("agent:a", owner="me")
    head = await append(store, "agent:a", 3)
    assert wrote == [HERE] * 3
    assert (await store.head("agent:a"), await store.verify("agent:a")) == (head, None)

    await lease.release()
    await lease.release()
    await append(store, "agent:a", 1, head)
    assert wrote[3:] == [WRITER]
    lease = await store.acquire("agent:a", owner="me")
    await append(store, "agent:b", 1)
    assert wrote[4:] == [HERE]


@pytest.fixture
def leased(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that granted and freed leases, in order."""
    names: list[str] = []

    def noting(method: str) -> Callable[..., Any]:
        really = getattr(FileLeases, method)

        def noted(*args: Any, **how: Any) -> Any:
            found = really(*args, **how)
            names.append(threading.current_thread().name)
            return found

        return noted

    for method in ("_written", "give_up"):
        monkeypatch.setattr(FileLeases, method, noting(method))
    return names


async def test_the_only_run_of_a_process_takes_its_lease_in_the_thread_of_its_loop(
    store: RecorderEventStore, leased: list[str]
) -> None:
    await (await store.acquire("agent:a", owner="me")).release()
    # The first one waits for the lock that all others are held by.
    assert leased == [KEEPER, HERE]
    lease = await store.acquire("agent:a", owner="me")
    with pytest.raises(SessionBusy, match="me"):
        await store.acquire("agent:a", owner="another")
    other = await store.acquire("agent:b", owner="another")
    await other.release()
    assert leased[2:] == [HERE, KEEPER, KEEPER]
    await lease.release()
    await lease.release()
    assert leased[5:] == [HERE]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_child_that_gives_up_a_lease_leaves_that_of_its_parent(
    store: RecorderEventStore, path: Path
) -> None:
    lease = await store.acquire("agent:a", owner="me")
    pid = os.fork()
    if pid == 0:
        with suppress(StopIteration):
            lease.release().send(None)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    another = open_store(f"sqlite:///{path}")
    with pytest.raises(SessionBusy, match="me"):
        await another.acquire("agent:a", owner="another")
    await lease.release()
    await (await another.acquire("agent:a", owner="another")).release()
    await another.close()


async def test_where_a_disk_is_not_quick_leases_are_taken_in_another_thread(path: Path, leased: list[str]) -> None:
    store = opened(path, quick=0)
    await append(store, "agent:a", 1)
    await (await store.acquire("agent:a", owner="me")).release()
    await store.close()
    assert leased == [KEEPER] * 2


async def test_another_process_that_looks_who_has_a_lease_is_waited_for_in_another_thread(
    store: RecorderEventStore, path: Path, leased: list[str]
) -> None:
    folder = path.with_name("runs.db-leases")
    lease = await store.acquire("agent:a", owner="me")
    (file,) = folder.glob("*.lease")
    await lease.release()
    (folder / f"{file.name.partition('.')[0]}.1.dead.1.lease").touch()
    with FileLock(folder / "guard"):
        acquiring = asyncio.ensure_future(store.acquire("agent:a", owner="me"))
        await asyncio.sleep(0.05)
        # The loop has come back here, so it was not held.
        assert not acquiring.done()
    await (await acquiring).release()
    assert leased[2:] == [KEEPER, HERE]


@pytest.fixture
def reading(store: RecorderEventStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that read rows of streams, in order."""
    names: list[str] = []
    really = store.recorder.select_rows

    def select(stream: str, after: int, limit: int | None) -> Any:
        names.append(threading.current_thread().name)
        return really(stream, after, limit)

    monkeypatch.setattr(store.recorder, "select_rows", select)
    return names


async def test_few_events_are_read_in_the_thread_of_the_loop_and_many_are_not(
    store: RecorderEventStore, reading: list[str]
) -> None:
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", *[Noted(text="x")] * 40))
    assert len((await store.read("agent:a", after=30)).records) == 10
    assert len((await store.read("agent:a")).records) == 40
    assert await store.version("agent:a") == 40
    assert reading == [HERE, READER]


async def test_few_events_are_read_in_another_thread_where_what_they_hold_is_large(
    store: RecorderEventStore, reading: list[str]
) -> None:
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="x" * 40_000)))
    await store.read("agent:a")
    assert await store.snapshot("agent:a") is None
    await store.read("agent:first")
    assert reading == [READER, HERE]


async def test_with_several_runs_all_is_read_in_another_thread(store: RecorderEventStore, reading: list[str]) -> None:
    for stream in ("agent:a", "agent:b"):
        await store.acquire(stream, owner="me")
    await store.read("agent:first")
    assert reading == [READER]


async def test_a_question_does_not_hold_the_loop_while_another_one_is_answered(
    store: RecorderEventStore, reading: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = threading.Event()
    really = store.recorder.select_all_streams

    def slow() -> Sequence[str]:
        is_answered.wait()
        return really()

    monkeypatch.setattr(store.recorder, "select_all_streams", slow)
    first = asyncio.ensure_future(store.all_streams())
    await asyncio.sleep(0)
    second = asyncio.ensure_future(store.read("agent:first"))
    await asyncio.sleep(0.05)
    # The loop has come back here, so it was not held.
    assert not second.done()
    is_answered.set()
    assert await first == ["agent:first"]
    assert len((await second).records) == 1
    await store.read("agent:first")
    assert reading == [READER, HERE]


async def test_a_disk_that_is_slow_to_write_is_read_in_the_thread_of_the_loop(
    store: RecorderEventStore, wrote: list[str], reading: list[str], leased: list[str]
) -> None:
    vars(store)["_quick"] = 60.0
    vars(store)["_took"] = 61.0
    lease = await store.acquire("agent:a", owner="me")
    await store.read("agent:first")
    await lease.release()
    assert (reading, leased) == ([HERE], [KEEPER, HERE])
    await (await store.acquire("agent:a", owner="me")).release()
    assert leased[2:] == [HERE] * 2
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    assert wrote == [WRITER]
    vars(store)["_read_took"] = 61.0
    await (await store.acquire("agent:a", owner="me")).release()
    await store.read("agent:first")
    await store.read("agent:first")
    assert (reading[1:], leased[4:]) == ([READER, HERE], [KEEPER] * 2)


async def test_who_asks_until_something_has_changed_lets_others_change_it(store: RecorderEventStore) -> None:
    appending = asyncio.ensure_future(append(store, "agent:a", 3))
    while await store.version("agent:a") < 3:
        pass
    await appending


async def test_several_runs_share_commits_in_the_thread_that_writes(
    store: RecorderEventStore, wrote: list[str]
) -> None:
    for stream in ("agent:a", "agent:b"):
        await store.acquire(stream, owner="me")
    await asyncio.gather(append(store, "agent:a", 3), append(store, "agent:b", 3))
    assert set(wrote) == {WRITER}


async def test_a_disk_that_is_not_quick_holds_no_loop(path: Path, wrote: list[str]) -> None:
    store = opened(path, quick=0)
    wrote.clear()
    await store.acquire("agent:a", owner="me")
    await append(store, "agent:a", 3)
    await store.close()
    assert wrote == [WRITER] * 3


async def test_a_conflict_and_a_repetition_end_as_they_do_in_the_other_thread(
    store: RecorderEventStore, wrote: list[str]
) -> None:
    await store.acquire("agent:a", owner="me")
    head = await append(store, "agent:a", 1)
    assert await append(store, "agent:a", 1) == head
    with pytest.raises(ConcurrencyConflict):
        await store.append("agent:a", EMPTY_STREAM, commit_of("another", Noted()))
    assert set(wrote) == {HERE}
    assert await append(store, "agent:a", 1, head) == await store.head("agent:a")


async def test_a_writer_of_another_process_is_waited_for_in_the_thread_that_writes(
    store: RecorderEventStore, path: Path, wrote: list[str]
) -> None:
    await store.acquire("agent:a", owner="me")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        appending = asyncio.ensure_future(append(store, "agent:a", 1))
        await asyncio.sleep(0.05)
        # The loop has come back here, so it was not held.
        assert not appending.done()
        other.execute("ROLLBACK")
        await appending
    assert wrote == [WRITER]


async def test_loops_of_several_threads_write_one_after_another(store: RecorderEventStore) -> None:
    await store.acquire("agent:0", owner="me")
    heads: dict[str, StreamHead] = {}

    def run(stream: str) -> None:
        heads[stream] = asyncio.run(append(store, stream, 40))

    threads = [threading.Thread(target=run, args=(f"agent:{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await asyncio.sleep(0.01)
    assert {stream: head.version for stream, head in heads.items()} == {f"agent:{i}": 40 for i in range(4)}
    assert [await store.verify(stream) for stream in heads] == [None] * 4


async def test_closing_lets_a_write_of_another_thread_end(store: RecorderEventStore, path: Path) -> None:
    await store.acquire("agent:a", owner="me")
    ended: list[int] = []

    async def write_until_closed() -> None:
        head = EMPTY_STREAM
        with suppress(StoreUnavailable):
            while True:
                head = await append(store, "agent:a", 1, head)
                ended[:] = [head.version]

    thread = threading.Thread(target=lambda: asyncio.run(write_until_closed()))
    thread.start()
    while not ended:
        await asyncio.sleep(0)
    await store.close()
    await asyncio.to_thread(thread.join)
    async with AsyncExitStack() as stack:
        again = open_store(f"sqlite:///{path}")
        stack.push_async_callback(again.close)
        assert (await again.head("agent:a")).version == ended[0]
        assert await again.verify("agent:a") is None


async def test_a_loop_never_waits_for_a_server(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(postgres_url)
    names: list[str] = []
    for method in ("select_version", "select_rows", "select_chain"):
        really = getattr(store.recorder, method)

        def select(*given: Any, really: Callable[..., Any] = really) -> Any:
            names.append(threading.current_thread().name)
            return really(*given)

        monkeypatch.setattr(store.recorder, method, select)
    lease = await store.acquire("agent:a", owner="me")
    head = await append(store, "agent:a", 3)
    await store.read("agent:a")
    await store.read("agent:a", after=head)
    await store.version("agent:a")
    await lease.release()
    assert set(names) == {READER}
    assert len(names) >= 3

    freed = list[str]()
    free = PostgresLeases.give_up

    def give_up(leases: PostgresLeases, token: str) -> None:
        freed.append(threading.current_thread().name)
        free(leases, token)

    monkeypatch.setattr(PostgresLeases, "give_up", give_up)
    acquiring = asyncio.ensure_future(store.acquire("agent:a", owner="me"))
    await asyncio.sleep(0)
    acquiring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    assert freed == ["steptrail-keeper"]
    assert await store.is_leased("agent:a") is False
    await store.close()
