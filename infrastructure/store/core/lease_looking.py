"""Looking at the lease files of a database without taking a lease: who holds one, and what the dead left behind.

No file is created or removed. The look happens under the guard that every taking happens under; otherwise the lock that
it tries for a moment could be taken for an owner.
"""

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

_POLL_SECONDS = 0.01
LEASE, HOLDER = ".lease", ".holder"
"""With what the names of the two kinds of files end."""


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it was found. `stream` and `owner` are unknown when its owner died before it could write them."""

    stream: str | None
    owner: str | None
    is_live: bool


class LeaseFile(NamedTuple):
    """The file of a lease: which generation of its lease it is, and the name of its holder."""

    path: Path
    number: int
    holder: str


def file_name(stream: str) -> str:
    """Return how the names of the files of a stream's leases begin."""
    return sha256(stream.encode()).hexdigest()[:32]


def lease_files(folder: Path, name: str = "") -> list[LeaseFile]:
    """Return the leases in `folder` whose names begin like `name`, in order. Reads no pattern for each lease.

    What has another form was put there by somebody else, and is left alone.
    """
    found: list[LeaseFile] = []
    for each in sorted(os.listdir(folder)):
        if each.startswith(name) and each.endswith(LEASE):
            _, *parts = each.removesuffix(LEASE).split(".")
            if len(parts) == 3 and parts[0].isascii() and parts[0].isdigit() and int(parts[0]):
                found.append(LeaseFile(folder / each, int(parts[0]), parts[1]))
    return found


def holder_file(lease: LeaseFile) -> Path:
    """Return the file that is locked for as long as the holder of a lease lives."""
    return lease.path.with_name(lease.holder + HOLDER)


def holder_of(holder: FileLock) -> str:
    """Return the name of a holder by which leases name it."""
    return Path(holder.lock_file).name.removesuffix(HOLDER)


def look_at_leases(folder: Path, *, patience: float, stream: str | None = None) -> list[SeenLease] | None:
    """Return the leases in `folder`, or those of a stream; None when that cannot be known.

    `patience` is how long to wait for another process that is taking or looking, in seconds.
    """
    guard, name = folder / "guard", "" if stream is None else file_name(stream)
    try:
        # A process that takes a lease makes the guard first.
        if not guard.exists():
            return []
        with FileLock(guard, thread_local=False, timeout=patience).acquire(poll_interval=_POLL_SECONDS):
            return [SeenLease(*stream_and_owner(each), is_live(each)) for each in lease_files(folder, name)]
    except (Timeout, OSError):
        return None


def stream_and_owner(lease: LeaseFile) -> tuple[str | None, str | None]:
    """Return what the file of a lease says. Both are unknown when its owner died before it could write them."""
    try:
        said = json.loads(lease.path.read_text(encoding="utf-8"))
        return said["stream"], owner_told(said)
    except (OSError, TypeError, ValueError, KeyError):
        return None, None


def owner_told(said: dict[str, str]) -> str:
    """Return how a user is told of the owner of a lease, of which its file says this."""
    return f"{said['owner']} (pid {said['pid']} on {said['host']} since {said['since']})"


def is_live(lease: LeaseFile) -> bool:
    """Tell whether the holder of a lease lives. Ask under the guard."""
    holder = holder_file(lease)
    # A lock that is not there would be made by the look.
    return holder.exists() and is_locked(holder)


def is_locked(path: Path) -> bool:
    """Tell whether a live process holds this lock file. Ask under the guard: the look itself locks it for a moment."""
    probe = FileLock(path, thread_local=False)
    try:
        probe.acquire(blocking=False)
    except Timeout:
        return True
    probe.release()
    return False
