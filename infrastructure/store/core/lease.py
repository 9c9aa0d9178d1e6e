"""Leases: who is running which session right now. Advisory; what keeps two writers apart is the expected version.

Beside `runs.db` lies `runs.db-leases/`. A lease is one file there, locked through `filelock`: the kernel frees the lock
when the process dies, SIGKILL included. Takeovers add a generation, a second file, while the old holder keeps its own;
without a takeover a lease is granted only when no generation is held. Every look, creation and removal happens under
one guard lock that itself is never removed, so a lease file can be unlinked without splitting those who wait for it.
The owner stands in a file of its own, because opening a lock file may empty it.

Lock files are not inherited by programs that are started. A child made by `fork` gets the descriptor, and `filelock` 4
closes it there at once; with an older one, or a fork behind Python's back, the lease lives until that child ends too.
"""

import json
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from steptrail.domain.errors import SessionBusy, StoreError, StoreLocked, StoreReadOnly, StoreUnavailable
from steptrail.infrastructure.store.core.file_errors import file_error
from steptrail.infrastructure.store.core.lease_looking import SeenLease, is_locked, lock_files, look_at_leases

_POLL_SECONDS = 0.01


class HeldLease(Protocol):
    """A lease that was granted."""

    def release(self) -> None:
        """Give it up. Safe to call twice."""
        ...


class Leases(Protocol):
    """Grants leases; blocking."""

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`."""
        ...

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""
        ...

    def close(self) -> None:
        """Release every lease that was granted here. Safe to call twice."""
        ...


def give_back(leases: Leases, is_erased: Callable[[str], bool]) -> None:
    """Remove the leases that the dead have left of erased streams: there is no next run that would.

    One that cannot be removed now is left for the next call.
    """
    for left in leases.seen() or ():
        if left.stream is not None and not left.is_live and is_erased(left.stream):
            with suppress(SessionBusy, StoreError):
                leases.acquire(left.stream, "erasure", take_over=False).release()


class FileLeases:
    """Leases of a database file, between all processes of this machine."""

    def __init__(self, database: Path, *, patience: float) -> None:
        self._folder = _folder(database)
        self._patience = patience
        self._held: set[_FileLease] = set()
        self._lock = threading.Lock()

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`; raise `StoreUnavailable` when files fail."""
        with self._guard():
            name = _file_name(stream)
            # What has no number was put there by somebody else, and is left as it is.
            generations = sorted((path for path in lock_files(self._folder, name) if _number(path)), key=_number)
            held = [path for path in generations if not _cleared(path)]
            if held and not take_over:
                raise SessionBusy(session_in(stream), _read_owner(held[-1]))
            path = self._folder / f"{name}.{_number(held[-1]) + 1 if held else 1}.lock"
            lock = FileLock(path, thread_local=False)
            lock.acquire(blocking=False)
            try:
                # Not written into: what stands there may be a pipe, and nobody else's that lives.
                _owner_file(path).unlink(missing_ok=True)
                _owner_file(path).write_text(json.dumps(_description(stream, owner)), encoding="utf-8")
            except BaseException:
                # A lease that was not granted leaves nothing behind.
                lock.release(force=True)
                _remove(path)
                raise
        lease = _FileLease(self, lock, path)
        with self._lock:
            self._held.add(lease)
        return lease

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""
        return _look(self._folder, self._patience, stream)

    def close(self) -> None:
        """Release every lease that was granted here. Safe to call twice."""
        with self._lock:
            held = list(self._held)
        for lease in held:
            lease.release()

    def give_up(self, lease: "_FileLease") -> None:
        """Free a lease and remove its files. Only the first call does anything."""
        with self._lock:
            if lease not in self._held:
                return
            self._held.remove(lease)
        # Without the guard the files must stay: somebody may be looking at them. The next to acquire removes them.
        try:
            if not self._folder.is_dir():
                return
            with self._guard():
                lease.lock.release(force=True)
                _remove(lease.path)
        except (StoreLocked, StoreUnavailable):
            return
        finally:
            lease.lock.release(force=True)

    @contextmanager
    def _guard(self) -> Generator[None]:
        try:
            self._folder.mkdir(exist_ok=True)
            guard = FileLock(self._folder / "guard", thread_local=False, timeout=self._patience)
            with guard.acquire(poll_interval=_POLL_SECONDS):
                yield
        except Timeout as error:
            raise StoreLocked(f"the leases in {self._folder} are locked by another process: try again") from error
        except OSError as error:
            raise file_error(error, f"the leases in {self._folder}") from error


class _FileLease:
    def __init__(self, leases: FileLeases, lock: FileLock, path: Path) -> None:
        self._leases, self.lock, self.path = leases, lock, path

    def release(self) -> None:
        self._leases.give_up(self)


class MemoryLeases:
    """Leases of a database in memory, which one store of one process has to itself."""

    def __init__(self) -> None:
        self._held: dict[str, list[_MemoryLease]] = {}
        self._lock = threading.Lock()

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`."""
        with self._lock:
            held = self._held.setdefault(stream, [])
            if held and not take_over:
                raise SessionBusy(session_in(stream), held[-1].owner)
            lease = _MemoryLease(self, stream, owner_here(stream, owner))
            held.append(lease)
        return lease

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all."""
        with self._lock:
            held = [lease for leases in self._held.values() for lease in leases]
        return [SeenLease(lease.stream, lease.owner, True) for lease in held if stream in {None, lease.stream}]

    def close(self) -> None:
        """Forget every lease. Safe to call twice."""
        with self._lock:
            self._held.clear()

    def give_up(self, lease: "_MemoryLease") -> None:
        """Free a lease. Only the first call does anything."""
        with self._lock:
            held = self._held.get(lease.stream, [])
            if lease in held:
                held.remove(lease)
            if not held:
                self._held.pop(lease.stream, None)


class _MemoryLease:
    def __init__(self, leases: MemoryLeases, stream: str, owner: str) -> None:
        self._leases, self.stream, self.owner = leases, stream, owner

    def release(self) -> None:
        self._leases.give_up(self)


class NoLeases:
    """The leases of a store that is only read. It drives no session, and sees which others do."""

    def __init__(self, database: Path, *, patience: float) -> None:
        self._store, self._patience = database, patience

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Raise `StoreReadOnly`."""
        raise StoreReadOnly(f"the store {self._store} was opened for reading only: {owner} cannot run {stream!r} on it")

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""
        return _look(_folder(self._store), self._patience, stream)

    def close(self) -> None:
        """Do nothing: no lease was granted."""


def _folder(database: Path) -> Path:
    return database.with_name(database.name + "-leases")


def _file_name(stream: str) -> str:
    return sha256(stream.encode()).hexdigest()[:32]


def _look(folder: Path, patience: float, stream: str | None) -> list[SeenLease] | None:
    return look_at_leases(folder, patience=patience, name="" if stream is None else _file_name(stream))


def _cleared(path: Path) -> bool:
    if is_locked(path):
        return False
    _remove(path)
    return True


def _remove(path: Path) -> None:
    with suppress(OSError):
        _owner_file(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _number(path: Path) -> int:
    """Return which generation of its lease a file is; 0 for none."""
    number = path.name.split(".")[1]
    return int(number) if number.isascii() and number.isdigit() else 0


def _owner_file(path: Path) -> Path:
    return path.with_suffix(".owner")


def session_in(stream: str) -> str:
    """Return the id that users call the stream by."""
    return stream.partition(":")[2] or stream


def owner_here(stream: str, owner: str) -> str:
    """Return how others are told of an owner in this process."""
    return _tell(_description(stream, owner))


def _description(stream: str, owner: str) -> dict[str, str]:
    return {
        "stream": stream,
        "owner": owner,
        "pid": str(os.getpid()),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _tell(said: dict[str, str]) -> str:
    return f"{said['owner']} (pid {said['pid']} on {said['host']} since {said['since']})"


def _read_owner(path: Path) -> str | None:
    try:
        said: dict[str, str] = json.loads(_owner_file(path).read_text(encoding="utf-8"))
        return _tell(said)
    except (OSError, ValueError, KeyError):
        return None
