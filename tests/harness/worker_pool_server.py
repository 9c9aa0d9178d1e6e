"""The process that forks the workers of a pool. It speaks to `tests.harness.worker_pool` over its input and output.

A job is a line `<number> <bytes>` and a pickled call. The answers are `started <number> <pid>` and, when the worker has
ended, `ended <number> <code>`. Jobs are unpickled before the fork, so a module is imported once for all workers.
"""

import gc
import os
import pickle
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from tests.harness.imported import COMMANDS

Job = Callable[[], object]


def serve() -> None:
    """Fork a worker for every job until the input ends; then kill those that are left, and remove the files of all."""
    folder = Path(sys.argv[1])
    for module in COMMANDS:
        # One that is not installed is missed by whoever needs it, and told then.
        with suppress(ImportError):
            import_module(module)
    workers: dict[int, int] = {}
    ended, wake = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    jobs = os.fdopen(0, "rb", buffering=0)
    while True:
        ready = select.select([jobs.fileno(), ended], [], [])[0]
        if ended in ready:
            with suppress(BlockingIOError):
                os.read(ended, 65536)
        _reap(workers)
        if jobs.fileno() in ready:
            head = jobs.readline()
            if not head:
                break
            number, size = (int(word) for word in head.split())
            workers[_fork(folder / str(number), _load(_read(jobs.fileno(), size)))] = number
            _tell(f"started {number} {next(reversed(workers))}")
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    shutil.rmtree(folder)


def _fork(files: Path, job: Job) -> int:
    # What a worker never looks through it does not copy.
    gc.freeze()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(files.with_suffix(".said"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        files.with_suffix(".result").write_bytes(pickle.dumps(job()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        # What the server would do at its end is not for a worker to do, and a thread that hangs must not keep it.
        os._exit(code)
    raise AssertionError("unreachable")


def _load(pickled: bytes) -> Job:
    try:
        # The other end of the pipe is the process that started this one.
        call, args, kwargs = pickle.loads(pickled)  # noqa: S301
    except Exception:
        return partial(_fail, traceback.format_exc())
    return partial(call, *args, **kwargs)


def _fail(why: str) -> None:
    raise RuntimeError(f"the call could not be loaded:\n{why}")


def _reap(workers: dict[int, int]) -> None:
    while workers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        _tell(f"ended {workers.pop(pid)} {os.waitstatus_to_exitcode(status)}")


def _read(pipe: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.read(pipe, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _ignore(number: int, frame: object) -> None:
    del number, frame
