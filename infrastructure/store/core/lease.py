"""Leases: who is running which session right now. Advisory; what keeps two writers apart is the expected version.

Beside `runs.db` lies `runs.db-leases/`. A lease is a file there. It tells its owner and names a *holder*: another file,
one for all leases of a store, which the store keeps locked through `filelock`. The kernel frees that lock when the
process dies, SIGKILL included, and then all its leases are dead. It is one for all because each lock takes one of the
thousand files that a process may have open, and as long as half a commit.

Takeovers add a generation, a second lease, while the old one stays; without a takeover a lease is granted only when no
generation is live. A store that takes one writes its file first, and looks for other files of that lease then. Of two
stores at the same moment the one that was later to write sees the file of the other, and maybe both do. So a store that
sees its own file alone has the lease.

A store that sees another file has to find out whether its holder lives, and tries the holder's lock for a moment. All
such looks happen under one guard lock, which itself is never removed, and so does the removal of what the dead have
left. A store removes a lease of its own without the guard: others find the file, or do not.

Lock files are not inherited by programs that are started. A child made by `fork` gets the descriptor, and `filelock` 4
closes it there at once; with an older one, or a fork behind Python's back, the leases live until that child ends too.
"""

import itertools
import json
import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from filelock import FileLock, Timeout

from steptrail.domain.errors import SessionBusy, StoreError, StoreLocked, StoreReadOnly, stream_name
from steptrail.infrastructure.store.core.file_errors import file_error
from steptrail.infrastructure.store.core.lease_looking import (
    HOLDER,
    LEASE,
    LeaseFile,
    SeenLease,
    file_name,
    holder_file,
    holder_of,
    is_live,
    is_locked,
    lease_files,
    look_at_leases,
    owner_told,
    stream_and_owner,
)
from steptrail.infrastructure.store.core.made_by_root import make_file, make_folder

_POLL_SECONDS = 0.01


class HeldLease(NamedTuple):
    """A lease that was granted. `release` gives it up, and is safe to call twice; `is_held` as in the port."""

    release: Callable[[], None]
    is_held: Callable[[], bool] = lambda: True


class Leases(ABC):
    """Grants leases; blocking."""

    @abstractmethod
    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`."""

    def acquire_at_once(self, stream: str, owner: str, *, take_over: bool) -> HeldLease | None:
        """Do what `acquire` does, or return None when that takes longer than to write into a file."""
        return self.acquire(stream, owner, take_over=take_over)

    @abstractmethod
    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""

    @abstractmethod
    def close(self) -> None:
        """Release every lease that was granted here. Safe to call twice."""


class StoreLease:
    """A lease of the port. Freed when the store is closed, and when the process dies, there or after its term."""

    def __init__(self, give_up: Callable[[], Awaitable[None]], is_held: Callable[[], bool]) -> None:
        self._give_up, self._is_held = give_up, is_held

    @property
    def is_held(self) -> bool:
        """Whether nobody else has got it since, as far as is known here."""
        return self._is_held()

    async def release(self) -> None:
        """Give the session up. Safe to call twice."""
        await self._give_up()


def give_back(leases: Leases, is_erased: Callable[[str], bool]) -> None:
    """Remove the leases that the dead have left of erased streams: there is no next run that would.

    One that cannot be removed now is left for the next call.
    """
    for left in leases.seen() or ():
        if left.stream is not None and not left.is_live and is_erased(left.stream):
            with suppress(SessionBusy, StoreError):
                leases.acquire(left.stream, "erasure", take_over=False).release()


class FileLeases(Leases):
    """Leases of a database file, between all processes of this machine."""

    def __init__(self, database: Path, *, patience: float) -> None:
        self._store, self._folder = database, _folder(database)
        self._patience = patience
        self._guard_file, self._is_guarding = FileLock(self._folder / "guard", thread_local=False), threading.RLock()
        self._holder: FileLock | None = None
        self._held: set[Path] = set()
        self._given_up: set[Path] = set()
        """The files of leases that were given up and are not removed yet: others find them live."""
        self._grants = itertools.count(1)
        self._lock = threading.Lock()

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`; raise `StoreUnavailable` when files fail."""
        granted = self.acquire_at_once(stream, owner, take_over=take_over)
        if granted is not None:
            return granted
        with self._guard():
            name = file_name(stream)
            held = self._live(name)
            if held and not take_over:
                raise SessionBusy(stream_name(stream), stream_and_owner(held[-1])[1])
            path = self._written(name, held[-1].number + 1 if held else 1, self._locked_holder(), stream, owner)
            # Somebody may have taken the lease without the guard meanwhile. A take-over is granted beside anybody.
            if not take_over and (others := [each for each in self._live(name) if each.path != path]):
                self.give_up(path)
                raise SessionBusy(stream_name(stream), stream_and_owner(others[-1])[1])
            return HeldLease(partial(self.give_up, path))

    def acquire_at_once(self, stream: str, owner: str, *, take_over: bool) -> HeldLease | None:
        """Do what `acquire` does, or return None where that takes a look at who holds the lease, or the first lock."""
        self._free()
        holder, name = self._holder, file_name(stream)
        # Whoever removes the folder removes all leases, and the holder: then the next leases need another.
        if take_over or holder is None or not os.path.exists(holder.lock_file):
            return None
        try:
            if self._files_of(name):
                return None
            path = self._written(name, 1, holder, stream, owner)
            if self._files_of(name) == [path.name]:
                return HeldLease(partial(self.give_up, path))
            self.give_up(path)
        except OSError as error:
            raise self._file_error(error) from error
        return None

    def _files_of(self, name: str) -> list[str]:
        """Return the names of the files of a lease, whatever somebody else may have put among them."""
        return [each for each in os.listdir(self._folder) if each.startswith(name)]

    def _written(self, name: str, number: int, holder: FileLock, stream: str, owner: str) -> Path:
        """Write the file of a lease, of which nobody knows yet whether it is granted, and return its name."""
        # Each has a file of its own, so that a removal never meets the lease of somebody else.
        path = self._folder / f"{name}.{number}.{holder_of(holder)}.{next(self._grants)}{LEASE}"
        with self._lock:
            # Before it can be seen: another thread takes a file of this holder for one that could not be removed.
            self._held.add(path)
        try:
            path.write_bytes(json.dumps(_description(stream, owner)).encode())
        except BaseException:
            # A lease that was not granted leaves nothing behind.
            self.give_up(path)
            raise
        return path

    def _live(self, name: str) -> list[LeaseFile]:
        """Return the live leases of a stream, oldest first, and remove the others. Call it under the guard."""
        there = sorted(lease_files(self._folder, name), key=lambda each: each.number)
        return [each for each in there if not self._cleared(each)]

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""
        self._free()
        return look_at_leases(self._folder, patience=self._patience, stream=stream)

    def close(self) -> None:
        """Release every lease that was granted here. Safe to call twice."""
        with self._lock:
            held, holder = list(self._held), self._holder
            self._holder = None
        for path in held:
            self.give_up(path)
        if holder is None:
            return
        # Without the guard the file must stay: somebody may be trying its lock. Who finds it dead removes it.
        with suppress(StoreError, OSError):
            if self._folder.is_dir():
                with self._guard():
                    holder.release(force=True)
                    _remove(Path(holder.lock_file))
        holder.release(force=True)

    def give_up(self, path: Path) -> None:
        """Free a lease and remove its file. Only the first call does anything."""
        with self._lock:
            if path not in self._held:
                return
            self._held.remove(path)
            self._given_up.add(path)
        self._free()

    def _free(self) -> None:
        """Remove the files of what was given up. What cannot be removed now is tried again: their folder may be away.

        A run ends for that reason too, and nobody takes it up again as long as its lease seems to live.
        """
        if self._given_up and not self._removed() and os.path.isdir(self._folder):
            # Windows keeps a file that somebody reads. Under the guard nobody does.
            with suppress(StoreError), self._guard():
                self._removed()

    def _removed(self) -> bool:
        """Remove what can be removed of the files of what was given up; tell whether that was all."""
        with self._lock:
            left = list(self._given_up)
        for path in [*left]:
            try:
                path.unlink()
            except FileNotFoundError:
                if not os.path.isdir(self._folder):
                    continue  # it may come back with its folder
            except OSError:
                continue
            left.remove(path)
            with self._lock:
                self._given_up.discard(path)
        return not left

    def _cleared(self, lease: LeaseFile) -> bool:
        """Remove a lease that nobody holds; return whether it was one. Call it under the guard."""
        with self._lock:
            if lease.path in self._held:
                return False
            is_of_here = self._holder is not None and lease.holder == holder_of(self._holder)
        if not is_of_here:
            if is_live(lease):
                return False
            _remove(holder_file(lease))
        _remove(lease.path)
        return True

    def _locked_holder(self) -> FileLock:
        """Return the lock that says that this store lives. Call it under the guard."""
        # Whoever removes the folder removes all leases, and this one: then the next leases need another.
        if self._holder is None or not Path(self._holder.lock_file).exists():
            for left in self._folder.glob(f"*{HOLDER}"):
                if not is_locked(left):
                    _remove(left)
            make_file(name := self._folder / f"{token_hex(8)}{HOLDER}", self._store)
            holder = FileLock(name, thread_local=False)
            holder.acquire(blocking=False)
            self._holder = holder
        return self._holder

    @contextmanager
    def _guard(self) -> Generator[None]:
        # The lock of the file is one for all threads of this process.
        if not self._is_guarding.acquire(timeout=self._patience):
            raise self._locked()
        try:
            if not os.path.isdir(self._folder):
                # Not with the folder of the store, which may be away, and is to be put back in that place.
                make_folder(self._folder, self._store)
            with suppress(FileExistsError):
                make_file(Path(self._guard_file.lock_file), self._store)
            with self._guard_file.acquire(timeout=self._patience, poll_interval=_POLL_SECONDS):
                yield
        except Timeout as error:
            raise self._locked() from error
        except OSError as error:
            raise self._file_error(error) from error
        finally:
            self._is_guarding.release()

    def _file_error(self, error: OSError) -> StoreError:
        return file_error(error, f"the leases in {self._folder}")

    def _locked(self) -> StoreLocked:
        return StoreLocked(f"the leases in {self._folder} are locked by another process: try again")


class MemoryLeases(Leases):
    """Leases of a database in memory, which one store of one process has to itself."""

    def __init__(self) -> None:
        self._held: dict[str, dict[object, str]] = {}
        """Stream -> its leases, the oldest first, each with its owner."""
        self._lock = threading.Lock()

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream or raise `SessionBusy`."""
        with self._lock:
            held, lease = self._held.setdefault(stream, {}), object()
            if held and not take_over:
                raise SessionBusy(stream_name(stream), [*held.values()][-1])
            held[lease] = owner_here(stream, owner)
        return HeldLease(partial(self._give_up, stream, lease))

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all."""
        with self._lock:
            held = [(each, owner) for each, leases in self._held.items() for owner in leases.values()]
        return [SeenLease(each, owner, True) for each, owner in held if stream in {None, each}]

    def close(self) -> None:
        """Forget every lease. Safe to call twice."""
        with self._lock:
            self._held.clear()

    def _give_up(self, stream: str, lease: object) -> None:
        with self._lock:
            held = self._held.get(stream, {})
            held.pop(lease, None)
            if not held:
                self._held.pop(stream, None)


class NoLeases(Leases):
    """The leases of a store that is only read. It drives no session, and sees which others do."""

    def __init__(self, database: Path, *, patience: float) -> None:
        self._store, self._patience = database, patience

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Raise `StoreReadOnly`."""
        raise StoreReadOnly(f"the store {self._store} was opened for reading only: {owner} cannot run {stream!r} on it")

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all, and leave them as they are; None when it cannot be told."""
        return look_at_leases(_folder(self._store), patience=self._patience, stream=stream)

    def close(self) -> None:
        """Do nothing: no lease was granted."""


def _folder(database: Path) -> Path:
    return database.with_name(database.name + "-leases")


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def owner_here(stream: str, owner: str) -> str:
    """Return how others are told of an owner in this process."""
    return owner_told(_description(stream, owner))


def _description(stream: str, owner: str) -> dict[str, str]:
    return {
        "stream": stream,
        "owner": owner,
        "pid": str(os.getpid()),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
