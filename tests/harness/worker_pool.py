"""Worker processes for tests that kill: started in a moment, stopped and killed at will, never left behind.

Starting Python and importing an agent takes half a second; a fork takes milliseconds. So a pool has a server process
(`tests.harness.worker_pool_server`) that keeps what it has imported, has no threads, and forks a worker for every call.
When the pool is closed, or the process that has it dies in whatever way, the server kills every worker.
"""

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_ROOT = Path(__file__).parents[2]
_SERVER = "from tests.harness.worker_pool_server import serve; serve()"


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How a worker ended. `code` is 0, 1 after an exception, or the negative number of the signal that killed it.

    `result` is what its function returned, if it did; `said` is all that it wrote to its two outputs, a traceback
    included.
    """

    code: int
    result: T | None
    said: str

    def answer(self) -> T:
        """Return what the function returned; fail the test with what the worker said when it did not return."""
        assert self.code == 0, f"the worker ended with {self.code}: {self.said}"
        return cast(T, self.result)


class Worker(Generic[T]):
    """One call in a process of its own."""

    def __init__(self, pool: "WorkerPool", number: int, pid: int) -> None:
        self._pool, self._number, self.pid = pool, number, pid

    def poll(self) -> int | None:
        """Return how the process ended, or None while it goes on."""
        return self._pool.code_of(self._number, 0.0)

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # The server has taken note of its end, and has not told us yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self.signal(signal.SIGKILL)

    def killed(self, patience: float = 60.0) -> bool:
        """Kill the process, and tell whether that ended it; fail the test when it had failed before."""
        self.kill()
        ended = self.end(patience)
        if ended.code != -signal.SIGKILL:
            ended.answer()
        return ended.code == -signal.SIGKILL

    def end(self, patience: float = 60.0) -> Ended[T]:
        """Wait for the process. One that is still going after `patience` seconds hangs: raises `TimeoutError`."""
        deadline = time.monotonic() + patience
        while (code := self._pool.code_of(self._number, 0.2)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"worker {self._number} (pid {self.pid}) hangs")
        return self._pool.read(self._number, code)


class WorkerPool:
    """Starts workers; a context manager. Used by one thread of one process.

    A function is sent by its name, so it must stand at the top of a module that the server can import; its arguments
    and its result must be picklable. The server imports from where this process does, and from the repository's root.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._pids: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._unread = b""

    def start(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Worker[T]:
        """Start a worker that makes this call."""
        self._count += 1
        number = self._count
        pipe, job = self._opened().stdin, pickle.dumps((call, args, kwargs))
        assert pipe is not None
        pipe.write(f"{number} {len(job)}\n".encode() + job)
        pipe.flush()
        while number not in self._pids:
            self._listen(1.0)
        return Worker(self, number, self._pids[number])

    def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Ended[T]:
        """Make this call in a worker and wait for its end, whatever it is."""
        return self.start(call, *args, **kwargs).end()

    def code_of(self, number: int, patience: float) -> int | None:
        """Return how a worker ended, or None when it is still going after `patience` seconds."""
        if number not in self._codes:
            self._listen(patience)
        return self._codes.get(number)

    def read(self, number: int, code: int) -> Ended[Any]:
        """Return what a worker left behind."""
        assert self._folder is not None
        result, said = self._folder / f"{number}.result", self._folder / f"{number}.said"
        # The file was written by a worker that this pool has started.
        value = pickle.loads(result.read_bytes()) if code == 0 else None  # noqa: S301
        return Ended(code, value, said.read_text(encoding="utf-8", errors="replace") if said.exists() else "")

    def close(self) -> None:
        """Kill every worker and end the server. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            server.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> "subprocess.Popen[bytes]":
        if self._server is None:
            self._folder = Path(tempfile.mkdtemp(prefix="steptrail-pool-"))
            path = os.pathsep.join([str(_ROOT), *(entry or os.getcwd() for entry in sys.path)])
            self._server = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(self._folder)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Ctrl-C is for whoever runs the tests; the server ends when its input does.
                start_new_session=True,
            )
        return self._server

    def _listen(self, patience: float) -> None:
        pipe = self._opened().stdout
        assert pipe is not None
        while select.select([pipe], [], [], patience)[0]:
            heard = os.read(pipe.fileno(), 65536)
            if not heard:
                raise RuntimeError("the server of the pool is gone")
            *lines, self._unread = (self._unread + heard).split(b"\n")
            for line in lines:
                what, number, value = line.split()
                (self._pids if what == b"started" else self._codes)[int(number)] = int(value)
            patience = 0.0
