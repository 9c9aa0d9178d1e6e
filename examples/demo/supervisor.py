"""Starts the worker, passes on what it prints, and kills it when it is told to."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import IO

from folder import Folder
from model import ModelKind

__all__ = ["Worker", "WorkerFailed"]

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 120.0


class WorkerFailed(Exception):
    """The worker ended in a way that the demo did not bring about."""


class Worker:
    """A process that does one part of the demo."""

    def __init__(self, part: str, folder: Folder, kind: ModelKind) -> None:
        script = Path(__file__).with_name("worker.py")
        self._part, self._lines = part, 0
        self._process = subprocess.Popen(
            [sys.executable, str(script), part, str(folder.path), kind], stdout=subprocess.PIPE, text=True
        )
        print(f"  $ worker.py {part}   (process {self._process.pid})", flush=True)
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        self._relay = Thread(target=self._pass_on, args=(self._process.stdout,), daemon=True)
        self._relay.start()

    def finish(self) -> None:
        """Wait for its end. Raises `WorkerFailed` when that is not a good one."""
        self._watch(lambda _: False)
        self._relay.join()
        if self._process.returncode != 0:
            raise WorkerFailed(f"the worker of {self._part!r} ended with {self._process.returncode}")

    def kill(self, when: Callable[[int], bool], delay: float = 0.0) -> None:
        """Send it SIGKILL once `when(lines it has printed)` holds and `delay` seconds are over.

        Raises `WorkerFailed` when it ends before that.
        """
        self._watch(when)
        time.sleep(delay)
        if self._process.poll() is not None:
            raise WorkerFailed(f"the worker of {self._part!r} ended before it could be killed")
        self._process.kill()
        self._process.wait()
        self._relay.join()
        print(f"  !! process {self._process.pid} killed with SIGKILL", flush=True)

    def _watch(self, until: Callable[[int], bool]) -> None:
        """Wait until that holds or the process has ended."""
        began = time.monotonic()
        while self._process.poll() is None and not until(self._lines):
            if time.monotonic() - began > _PATIENCE_SECONDS:
                self._process.kill()
                raise WorkerFailed(f"the worker of {self._part!r} was given up after {_PATIENCE_SECONDS:g} seconds")
            time.sleep(_POLL_SECONDS)

    def _pass_on(self, output: IO[str]) -> None:
        with output:
            for line in output:
                print(f"  {line}", end="", flush=True)
                self._lines += 1
