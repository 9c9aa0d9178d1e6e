"""Leases between real processes, which are killed."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from filelock import FileLock

from steptrail.domain.errors import SessionBusy, StoreFull, StoreLocked, StoreUnavailable
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.lease import FileLeases
from steptrail.testing.store_contract import Noted, commit_of

HOLD = """
import asyncio, sys
from steptrail.infrastructure.store import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.acquire("agent:s1", owner=sys.argv[2], take_over=len(sys.argv) > 3 and sys.argv[3] == "take over")
    START_CHILD
    sys.stdin.readline()
    await store.close()

asyncio.run(main())
"""
ALONE = "print('held', flush=True)"
WITH_PROGRAM = """
    import subprocess
    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=False)
    print("held", child.pid, flush=True)
"""
WITH_FORK = """
    import os, time
    # The child speaks: when its parent has forked, it itself may not yet have run as far as giving up the lock.
    if os.fork() == 0:
        print("held", os.getpid(), flush=True)
        os.close(0), os.close(1)
        time.sleep(600)
"""


@contextmanager
def holder(url: str, owner: str, how: str = "", child: str = ALONE) -> Generator["subprocess.Popen[str]"]:
    """Run a process that holds the lease of agent:s1."""
    script = HOLD.replace("START_CHILD", child)
    process = subprocess.Popen(
        [sys.executable, "-c", script, url, owner, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    words = process.stdout.readline().split()
    assert words[:1] == ["held"]
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        for pid in words[1:]:
            os.kill(int(pid), signal.SIGKILL)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "runs.db-leases").iterdir())


async def try_to_hold(url: str, *, take_over: bool = False) -> str | None:
    """Take and release the lease; return the owner who was in the way."""
    store = open_store(url)
    try:
        await (await store.acquire("agent:s1", owner="test", take_over=take_over)).release()
    except SessionBusy as busy:
        return busy.owner or ""
    finally:
        await store.close()
    return None


async def test_a_live_process_keeps_its_lease_and_is_named(url: str) -> None:
    with holder(url, "worker-7") as process:
        owner = await try_to_hold(url)
        assert owner is not None
        assert owner.startswith(f"worker-7 (pid {process.pid} on ")
        assert " since 20" in owner


@pytest.mark.parametrize("child", [ALONE, WITH_PROGRAM, WITH_FORK], ids=["alone", "with a program", "with a fork"])
async def test_a_killed_process_leaves_no_lease(url: str, child: str) -> None:
    with holder(url, "worker-7", child=child) as process:
        assert await try_to_hold(url) is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert await try_to_hold(url) is None


async def test_the_lease_that_a_killed_process_has_left_of_an_erased_session_goes_with_its_bytes(
    url: str, tmp_path: Path
) -> None:
    with holder(url, "erasure") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    store = open_store(url)
    for stream in ("agent:s1", "agent:s2"):
        await store.append(stream, EMPTY_STREAM, commit_of("c1", Noted()))
    await store.scrub()
    assert len(files(tmp_path)) == 3
    await store.erase({"agent:s1": 1}, at=1, by="ana", reason="asked")
    await store.scrub()
    assert [name.rpartition(".")[2] for name in files(tmp_path)] == ["holder", "guard"]
    await store.close()
    assert files(tmp_path) == ["guard"]


async def test_a_process_that_ends_well_leaves_no_lease_and_no_file(url: str, tmp_path: Path) -> None:
    with holder(url, "worker-7") as process:
        assert len(files(tmp_path)) == 3
        process.communicate("\n")
        assert process.returncode == 0
        assert files(tmp_path) == ["guard"]
        assert await try_to_hold(url) is None


async def test_a_lease_is_taken_over_from_a_live_process(url: str, tmp_path: Path) -> None:
    with holder(url, "worker-7") as old:
        assert await try_to_hold(url, take_over=True) is None
        with holder(url, "worker-8", "take over") as new:
            assert (await try_to_hold(url) or "").startswith("worker-8 ")
            new.kill()
            new.wait()
            # The one it was taken from still lives, and may not know yet.
            assert (await try_to_hold(url) or "").startswith("worker-7 ")
        old.kill()
        old.wait()
        assert await try_to_hold(url) is None
    assert files(tmp_path) == ["guard"]


async def test_only_one_of_many_gets_the_lease(url: str) -> None:
    stores = [open_store(url) for _ in range(6)]
    for _ in range(5):
        takes = [store.acquire("agent:s1", owner=f"w{i}") for i, store in enumerate(stores)]
        outcomes = await asyncio.gather(*takes, return_exceptions=True)
        leases = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert len(leases) == 1
        assert sum(isinstance(outcome, SessionBusy) for outcome in outcomes) == 5
        await leases[0].release()
    for store in stores:
        await store.close()


async def test_a_cancelled_acquire_leaves_no_lease(url: str) -> None:
    store = open_store(url)
    task = asyncio.create_task(store.acquire("agent:s1", owner="w1"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await (await store.acquire("agent:s1", owner="w2")).release()
    await store.close()


async def test_any_session_name_makes_a_file(url: str, tmp_path: Path) -> None:
    store = open_store(url)
    names = ["agent:../../x", "agent:" + "n" * 5000, "agent:a/b", "agent:ü\n", "agent:"]
    leases = [await store.acquire(name, owner="w") for name in names]
    assert len(files(tmp_path)) == 2 + len(names)
    for lease in leases:
        await lease.release()
    assert len(files(tmp_path)) == 2
    await store.close()
    assert files(tmp_path) == ["guard"]


def test_an_owner_that_cannot_be_read_is_busy_all_the_same(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=1)
    leases.acquire("agent:s1", "w1", take_over=False)
    (path,) = (tmp_path / "runs.db-leases").glob("*.lease")
    path.write_text("{")
    with pytest.raises(SessionBusy) as caught:
        leases.acquire("agent:s1", "w2", take_over=False)
    assert caught.value.owner is None
    leases.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_lease_that_finds_no_room_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, write = FileLeases(tmp_path / "runs.db", patience=1), Path.write_bytes

    def write_where_it_is_full(_: Path, data: bytes) -> None:
        write(Path("/dev/full"), data)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", write_where_it_is_full)
        with pytest.raises(StoreFull, match=r"^no space left for the leases in .*: nothing was written, free some and"):
            leases.acquire("agent:s1", "w1", take_over=False)
    assert leases.seen() == []
    leases.acquire("agent:s1", "w1", take_over=False).release()
    leases.close()
    assert files(tmp_path) == ["guard"]


def test_a_folder_that_cannot_be_written_is_told_in_the_same_words_each_time(unprivileged: Path) -> None:
    # What is the same as before is logged more and more seldom, and each lease has a file of its own.
    leases = FileLeases(unprivileged / "runs.db", patience=1)
    leases.acquire("agent:s1", "w1", take_over=False).release()
    folder = unprivileged / "runs.db-leases"
    folder.chmod(0o555)
    told: list[str] = []
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as refused:
            leases.acquire("agent:s1", "w1", take_over=False)
        told.append(str(refused.value))
    folder.chmod(0o755)
    assert told == [f"the leases in {folder} cannot be used: Permission denied"] * 2
    leases.acquire("agent:s1", "w1", take_over=False).release()
    leases.close()


@pytest.mark.parametrize("how", ["moved", "read-only"])
def test_a_lease_that_is_given_up_while_its_folder_is_away_is_free_for_others_when_that_is_back(
    unprivileged: Path, how: str
) -> None:
    database, folder = unprivileged / "runs.db", unprivileged / "runs.db-leases"
    ours, others = FileLeases(database, patience=1), FileLeases(database, patience=1)
    lease = ours.acquire("agent:s1", "w1", take_over=False)
    away = folder.rename(unprivileged / "away") if how == "moved" else folder
    away.chmod(0o555)
    lease.release()
    away.chmod(0o755)
    away.rename(folder)
    assert ours.seen() == others.seen() == []
    others.acquire("agent:s1", "w2", take_over=False).release()
    ours.close()
    others.close()


def test_a_lease_folder_that_was_removed_does_not_trouble_the_release(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=1)
    lease = leases.acquire("agent:s1", "w1", take_over=False)
    folder = tmp_path / "runs.db-leases"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    lease.release()
    assert not folder.exists()


@pytest.mark.timeout(60)
def test_leases_that_somebody_else_holds_the_guard_of_are_given_up_after_a_while(tmp_path: Path) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=0.05)
    leases.acquire("agent:s1", "w1", take_over=False)
    with FileLock(tmp_path / "runs.db-leases" / "guard"):
        with pytest.raises(StoreLocked, match="locked by another process: try again"):
            leases.acquire("agent:s1", "w1", take_over=False)
        # Where there is nobody to look at, nobody is waited for.
        leases.acquire("agent:s2", "w1", take_over=False).release()
    with pytest.raises(SessionBusy):
        leases.acquire("agent:s1", "w1", take_over=False)
    leases.close()


@pytest.mark.parametrize("middle", ["copy", "1 (2)", "-5", "\u00b2", "0", "9" * 190, "1.2", ""])
def test_a_file_that_somebody_else_put_among_the_leases_keeps_nobody_from_running(tmp_path: Path, middle: str) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=1)
    leases.acquire("agent:s1", "w1", take_over=False).release()
    taken = leases.acquire("agent:s1", "w1", take_over=False)
    ((name, _, *holder),) = (path.name.split(".") for path in (tmp_path / "runs.db-leases").glob("*.lease"))
    taken.release()
    strange = tmp_path / "runs.db-leases" / ".".join((name, middle, *holder))
    strange.touch()
    leases.acquire("agent:s1", "w2", take_over=False)
    with pytest.raises(SessionBusy):
        leases.acquire("agent:s1", "w3", take_over=False)
    leases.acquire("agent:s1", "w3", take_over=True)
    leases.close()
    # The one of digits alone has the form of a lease, of somebody who is gone: it is cleared away.
    assert strange.exists() is not middle.startswith("9")


async def test_a_pipe_in_the_place_of_a_lease_is_not_waited_for(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    lease = await store.acquire("agent:s1", owner="worker-7")
    (told,) = (tmp_path / "runs.db-leases").glob("*.lease")
    await lease.release()
    os.mkfifo(told)
    async with asyncio.timeout(60):
        await store.acquire("agent:s1", owner="worker-8")
    with pytest.raises(SessionBusy, match="worker-8"):
        await store.acquire("agent:s1", owner="worker-9")
    await store.close()


async def test_the_leases_of_many_sessions_take_one_open_file(url: str) -> None:
    store = open_store(url)
    await store.acquire("agent:s0", owner="me")
    before = len(os.listdir("/dev/fd"))
    for number in range(1, 40):
        await store.acquire(f"agent:s{number}", owner="me")
    assert len(os.listdir("/dev/fd")) == before
    leased = await store.leased()
    assert leased is not None
    assert len(leased) == 40
    await store.close()


def test_given_a_lease_folder_that_was_removed_then_the_next_lease_is_held_as_ever(tmp_path: Path) -> None:
    ours, other = (FileLeases(tmp_path / "runs.db", patience=1) for _ in range(2))
    ours.acquire("agent:s1", "w1", take_over=False)
    shutil.rmtree(tmp_path / "runs.db-leases")
    lease = ours.acquire("agent:s2", "w1", take_over=False)
    with pytest.raises(SessionBusy, match="w1"):
        other.acquire("agent:s2", "w2", take_over=False)
    lease.release()
    other.acquire("agent:s2", "w2", take_over=False)
    ours.close()
    other.close()
    assert files(tmp_path) == ["guard"]


def test_a_lease_that_cannot_be_removed_while_somebody_reads_it_is_removed_under_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=1)
    lease = leases.acquire("agent:s1", "w1", take_over=False)
    really, refused = Path.unlink, [True]

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        if refused:
            # As Windows does.
            refused.clear()
            raise PermissionError(13, "in use", str(path))
        really(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    lease.release()
    assert (refused, leases.seen()) == ([], [])
    leases.close()


def test_a_lease_that_could_not_be_removed_at_all_is_free_for_its_own_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = FileLeases(tmp_path / "runs.db", patience=1)
    lease = leases.acquire("agent:s1", "w1", take_over=False)
    with monkeypatch.context() as patched:

        def unlink(path: Path, *, missing_ok: bool = False) -> None:
            raise PermissionError(13, f"refused whether it is there or not: {missing_ok}", str(path))

        patched.setattr(Path, "unlink", unlink)
        lease.release()
    leases.acquire("agent:s1", "w2", take_over=False).release()
    leases.close()


async def test_what_a_killed_process_has_left_is_seen_until_somebody_takes_that_lease(url: str, tmp_path: Path) -> None:
    with holder(url, "worker-7") as process:
        process.kill()
        process.wait()
    store = open_store(url)
    lease = await store.acquire("agent:s2", owner="me")
    seen = {each.stream: each.is_live for each in await store.leases() or ()}
    assert seen == {"agent:s1": False, "agent:s2": True}
    # The holder of the dead has gone already, and only that.
    assert len(list((tmp_path / "runs.db-leases").glob("*.holder"))) == 1
    await lease.release()
    await (await store.acquire("agent:s1", owner="me")).release()
    assert await store.leases() == []
    with holder(url, "worker-8") as process:
        process.kill()
        process.wait()
    await (await store.acquire("agent:s1", owner="me")).release()
    assert len(list((tmp_path / "runs.db-leases").glob("*.holder"))) == 1
    await store.close()
    assert files(tmp_path) == ["guard"]


def test_threads_that_share_leases_do_not_get_one_at_once(tmp_path: Path) -> None:
    leases, holders, most = FileLeases(tmp_path / "runs.db", patience=60), list[int](), list[int]()

    def take(number: int) -> None:
        for _ in range(60):
            with suppress(SessionBusy):
                lease = leases.acquire("agent:s1", f"w{number}", take_over=False)
                holders.append(number)
                most.append(len(holders))
                time.sleep(0)
                holders.remove(number)
                lease.release()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leases.close()
    assert set(most) == {1}
    assert files(tmp_path) == ["guard"]


def test_a_lease_that_is_granted_while_the_one_before_it_is_freed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = (FileLeases(tmp_path / "runs.db", patience=1) for _ in range(2))
    before = ours.acquire("agent:s1", "w1", take_over=False)
    really, granted = Path.unlink, list[object]()

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        if not granted:
            granted.append(None)
            granted.append(ours.acquire("agent:s1", "w2", take_over=False))
        really(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    before.release()
    assert len(granted) == 2
    for leases in (other, ours):
        with pytest.raises(SessionBusy, match="w2"):
            leases.acquire("agent:s1", "w3", take_over=False)
    ours.close()
    other.close()
    assert files(tmp_path) == ["guard"]
