"""Looking at the lease files of a database without taking a lease: who holds one, and what the dead left behind.

No file is created or removed. The look happens under the guard that every taking happens under; otherwise the lock that
it tries for a moment could be taken for an owner.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it was found. `stream` and `owner` are unknown when its owner died before it could write them."""

    stream: str | None
    owner: str | None
    is_live: bool


def lock_files(folder: Path, name: str = "") -> list[Path]:
    """Return the lock files in `folder` whose names begin like `name`, in order. Reads no pattern for each lease."""
    names = [each for each in sorted(os.listdir(folder)) if each.startswith(name) and each.endswith(".lock")]
    return [folder / each for each in names if each.count(".") > 1]


def look_at_leases(folder: Path, *, patience: float, name: str = "") -> list[SeenLease] | None:
    """Return the leases in `folder` whose file names begin like `name`; None when that cannot be known.

    `patience` is how long to wait for another process that is taking or looking, in seconds.
    """
    guard = folder / "guard"
    try:
        # A process that takes a lease makes the guard first.
        if not guard.exists():
            return []
        with FileLock(guard, thread_local=False, timeout=patience).acquire(poll_interval=_POLL_SECONDS):
            return [_seen(path) for path in lock_files(folder, name)]
    except (Timeout, OSError):
        return None


def _seen(path: Path) -> SeenLease:
    said: dict[str, str] = {}
    with suppress(OSError, TypeError, ValueError):
        said = dict(json.loads(path.with_suffix(".owner").read_text(encoding="utf-8")))
    owner = (
        f"{said['owner']} (pid {said['pid']} on {said['host']})" if said.keys() >= {"owner", "pid", "host"} else None
    )
    return SeenLease(said.get("stream"), owner, is_locked(path))


def is_locked(path: Path) -> bool:
    """Tell whether a live process holds this lock file. Ask under the guard: the look itself locks it for a moment."""
    probe = FileLock(path, thread_local=False)
    try:
        probe.acquire(blocking=False)
    except Timeout:
        return True
    probe.release()
    return False
