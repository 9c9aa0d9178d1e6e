"""Threads, loops, forks and the end of the process."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.persistence import ApplicationRecorder
from eventsourcing.sqlite import SQLiteDatastore

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.library.sqlite import SQLiteEventRecorder
from steptrail.testing.store_contract import Noted, commit_of

ON_BOTH = pytest.mark.parametrize("url", ["file", "server"], indirect=True)

WITHOUT_CLOSING = """
import asyncio, sys
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of

store = open_store(sys.argv[1])

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60.0  # a machine with much else to do is no fault of ours
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.read("agent:a")
    await store.acquire("agent:a", owner="me")
    BEFORE_THE_END

asyncio.run(main())
print("end")
"""


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a store: in a file, or where `param` says."""
    place = getattr(request, "param", "file")
    if place == "server":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return f"sqlite:///{tmp_path / 'runs.db'}" if place == "file" else "sqlite:///:memory:"


@pytest.mark.parametrize("url", ["file", "memory", "server"], indirect=True)
def test_a_store_that_was_closed_leaves_nothing_to_warn_of(url: str) -> None:
    done = python(WITHOUT_CLOSING.replace("BEFORE_THE_END", "await store.close()"), url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


async def test_a_store_that_was_not_closed_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    done = python(WITHOUT_CLOSING.replace("BEFORE_THE_END", "pass"), f"sqlite:///{tmp_path / 'runs.db'}")
    assert (done.returncode, done.stdout) == (0, "end\n")

    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    await (await store.acquire("agent:a", owner="next")).release()
    version = await store.version("agent:a")
    await store.close()
    assert version == 1


IN_A_FORK = """
import asyncio, os, sys
from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store import open_store

store = open_store(sys.argv[1])
asyncio.run(store.version("agent:a"))
pid = os.fork()
if pid == 0:
    try:
        asyncio.run(store.version("agent:a"))
    except StoreUnavailable as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
asyncio.run(store.close())
"""


@ON_BOTH
def test_a_store_says_that_it_was_opened_before_a_fork(url: str) -> None:
    # No -W error: newer Pythons warn of every fork beside threads.
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FORK, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "opened before this process was forked" in done.stdout


@ON_BOTH
def test_one_store_serves_several_loops(url: str) -> None:
    store = open_store(url)
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        head = EMPTY_STREAM
        for i in range(30):
            head = await store.append(f"agent:{name}", head, commit_of(f"c{i}", Noted(number=i)))
        assert (await store.read(f"agent:{name}")).head == head

    def run(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(asyncio.run(store.streams("agent:"))) == 4
    asyncio.run(store.close())


@ON_BOTH
async def test_many_sessions_at_once_share_commits_and_keep_their_own_chains(url: str) -> None:
    store = open_store(url)

    async def session(name: str) -> None:
        head = EMPTY_STREAM
        for i in range(10):
            head = await store.append(name, head, commit_of(f"c{i}", Noted(number=i), Noted()))

    names = [f"agent:{i}" for i in range(40)]
    await asyncio.gather(*(session(name) for name in names))
    assert sorted(await store.streams("agent:")) == sorted(names)
    for name in names:
        assert await store.version(name) == 20
        assert await store.verify(name) is None
    await store.close()


WRITE = """
import asyncio, sys
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of

async def main():
    store = open_store(sys.argv[1])
    head = (await store.read("agent:a")).head
    await store.append("agent:a", head, commit_of("theirs", Noted(text="from another process")))
    await store.close()

asyncio.run(main())
"""


def of_the_library(store: RecorderEventStore) -> Any:
    """Return the library's recorder of a store: that of PostgreSQL is one, and on SQLite it is opened beside."""
    if isinstance(store.recorder, ApplicationRecorder):
        return store.recorder
    assert store.origin is not None
    return SQLiteEventRecorder(SQLiteDatastore(str(store.origin.path), originator_id_type="text"))


@ON_BOTH
async def test_a_subscription_hears_this_process_and_others(url: str) -> None:
    before = set(threading.enumerate())
    store = open_store(url)
    recorder = of_the_library(store)
    await store.append("agent:a", EMPTY_STREAM, commit_of("mine", Noted(text="a")))
    with recorder.subscribe(gt=0) as subscription:
        assert next(subscription).id == 1
        assert python(WRITE, url).returncode == 0
        assert b"from another process" in next(subscription).state
        await store.append("agent:b", EMPTY_STREAM, commit_of("mine", Noted(text="b")))
        assert next(subscription).originator_id == "agent:b"
    recorder.close()
    await store.close()
    assert set(threading.enumerate()) <= before


@ON_BOTH
async def test_closing_ends_subscriptions(url: str) -> None:
    store = open_store(url)
    recorder = of_the_library(store)
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    with recorder.subscribe(gt=0) as subscription:
        next(subscription)
        recorder.close()
        assert list(subscription) == []
    await store.close()


async def test_the_library_reads_what_the_store_wrote(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="a"), Noted()))
    await store.close()
    recorder = SQLiteEventRecorder(SQLiteDatastore(str(tmp_path / "runs.db"), originator_id_type="text"))
    assert [event.originator_version for event in recorder.select_events("agent:a")] == [1, 2]
    assert [notification.topic for notification in recorder.select_notifications(1, 10)] == ["test.noted.v1"] * 2
    assert recorder.max_notification_id() == 2
    recorder.close()


RACE = """
import asyncio, os, sys
from steptrail.domain.errors import ConcurrencyConflict
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of

async def main():
    store = open_store(sys.argv[1])
    for i in range(50):
        while True:
            head = await store.head("agent:a")
            try:
                await store.append("agent:a", head, commit_of(f"{os.getpid()}-{i}", Noted(number=i), Noted()))
                break
            except ConcurrencyConflict:
                pass
    await store.close()

asyncio.run(main())
"""


@ON_BOTH
async def test_processes_that_write_one_stream_make_one_chain(url: str) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", RACE, url]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]

    store = open_store(url)
    assert await store.version("agent:a") == 200
    assert await store.verify("agent:a") is None
    await store.close()


@ON_BOTH
@pytest.mark.parametrize("turns", range(4))
async def test_a_close_that_is_cancelled_has_closed_all_in_the_end(url: str, turns: int) -> None:
    before = set(threading.enumerate())
    store = open_store(url)
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.acquire("agent:a", owner="me")
    held = [each for each in threading.enumerate() if each not in before and each.name.startswith("steptrail-")]
    assert held
    closing = asyncio.create_task(store.close())
    for _ in range(turns + 1):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    if turns == 0:
        await store.close()  # it may have been cancelled before it began
    for thread in held:
        await asyncio.to_thread(thread.join, 20)
    assert not [each for each in held if each.is_alive()]
