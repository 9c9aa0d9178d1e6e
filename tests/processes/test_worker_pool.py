"""Workers answer, fail, are stopped and killed; none of them outlives its pool."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.pids import is_running
from tests.harness.worker_pool import WorkerPool

OWNER = """
import time
from tests.harness.worker_pool import WorkerPool
pool = WorkerPool()
worker = pool.start(time.sleep, 600)
print(worker.pid, flush=True)
time.sleep(600)
"""


def add(first: int, second: int) -> int:
    return first + second


def fail(why: str) -> None:
    raise ValueError(why)


def hang(here: Path) -> None:
    here.touch()
    time.sleep(600)


def until_gone(pid: int) -> None:
    while is_running(pid):
        time.sleep(0.01)


def test_a_worker_answers_from_a_process_of_its_own(pool: WorkerPool) -> None:
    assert pool.run(add, 2, second=3).answer() == 5
    assert pool.run(os.getpid).answer() not in {pool.run(os.getpid).answer(), os.getpid()}


def test_a_worker_that_raises_ends_with_its_traceback(pool: WorkerPool) -> None:
    ended = pool.run(fail, "no luck")
    assert (ended.code, ended.result) == (1, None)
    assert "ValueError: no luck" in ended.said
    with pytest.raises(AssertionError, match="no luck"):
        ended.answer()


def test_a_call_that_the_server_cannot_find_is_told(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add, "__qualname__", "nobody")
    monkeypatch.setattr(sys.modules[__name__], "nobody", add, raising=False)
    ended = pool.run(add, 1, 2)
    assert ended.code == 1
    assert "the call could not be loaded" in ended.said


def test_a_worker_that_is_stopped_can_be_killed(pool: WorkerPool, tmp_path: Path) -> None:
    worker = pool.start(hang, tmp_path / "here")
    while not (tmp_path / "here").exists():
        time.sleep(0.01)
    worker.signal(signal.SIGSTOP)
    assert worker.poll() is None
    worker.kill()
    assert worker.end().code == -signal.SIGKILL
    worker.kill()  # nobody else may have its number by now


def test_a_worker_that_hangs_is_told(pool: WorkerPool, tmp_path: Path) -> None:
    worker = pool.start(hang, tmp_path / "here")
    with pytest.raises(TimeoutError, match="hangs"):
        worker.end(patience=0.0)
    worker.kill()


def test_a_pool_that_is_closed_leaves_nobody_behind(tmp_path: Path) -> None:
    with WorkerPool() as own:
        pids = [own.start(hang, tmp_path / str(number)).pid for number in range(2)]
        os.kill(pids[0], signal.SIGSTOP)
    # Closed twice is closed.
    own.close()
    assert [pid for pid in pids if is_running(pid)] == []


def test_a_pool_whose_owner_is_killed_leaves_nobody_and_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.communicate()
    until_gone(pid)
    while list(tmp_path.iterdir()):
        time.sleep(0.01)


def test_one_that_ends_before_the_signal_reaches_it_is_let_be(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_news(number: int, patience: float) -> None:
        del number, patience

    worker = pool.start(add, 1, 1)
    until_gone(worker.pid)
    with monkeypatch.context() as patched:
        patched.setattr(pool, "code_of", no_news)
        worker.kill()
    assert worker.end().answer() == 2
