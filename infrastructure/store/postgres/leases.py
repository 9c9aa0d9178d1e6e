"""Leases in PostgreSQL: a row with a token and an expiry by the database's clock, one for each stream.

A thread of the store renews the leases that it holds, three times in the life of a lease. A process that is stopped
past the expiry may find another token in its row when it wakes: another process owns the session, and the expected
version of the next append proves it. The lease is `is_held` no more once the thread has looked. A row that has expired
and that no other process took is renewed like any other, because an hour without the database ends no run. A lease of a
dead process is free when it has expired. One that was given up while the database was away is its process's to take
again at once, and is freed for others when it is back.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, LiteralString
from uuid import uuid4

from steptrail.domain.errors import SessionBusy, StoreError, StoreReadOnly, stream_name
from steptrail.infrastructure.store.core.lease import HeldLease, Leases, owner_here
from steptrail.infrastructure.store.core.lease_looking import SeenLease
from steptrail.infrastructure.store.core.work_threads import started
from steptrail.infrastructure.store.postgres.connections import PostgresConnections, SteadyConnection
from steptrail.infrastructure.store.postgres.driver import ServerFailure
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.runtime.kernel.log_raised import said_by

_RENEWALS = 3

_log = logging.getLogger("steptrail.store")


class PostgresLeases(Leases):
    """Leases between all processes that share the database. They have a connection of their own."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections, self._connection = connections, SteadyConnection(connections)
        self._name, self._seconds = connections.address.name, connections.address.lease_seconds
        self._held: set[str] = set()
        self._given_up: set[str] = set()
        self._lock = threading.Lock()
        self._renewer: threading.Thread | None = None
        self._stopped = threading.Event()

    def acquire(self, stream: str, owner: str, *, take_over: bool) -> HeldLease:
        """Return the lease of a stream. Raises `SessionBusy`, `StoreReadOnly`, or what the server says."""
        if self._connections.is_read_only:
            raise StoreReadOnly(
                f"the store {self._name} was opened for reading only: {owner} cannot run {stream!r} on it"
            )
        with self._lock:
            # First, because nobody would renew what was taken.
            self._renewer = self._renewer or started(self._renew, name="steptrail-leases")
            ours = [token := uuid4().hex, *self._given_up]
        while not self._run(
            "INSERT INTO steptrail.leases AS held (stream, token, owner, expires) "
            "VALUES (%s, %s, %s, clock_timestamp() + make_interval(secs => %s)) "
            "ON CONFLICT (stream) DO UPDATE "
            "SET token = excluded.token, owner = excluded.owner, expires = excluded.expires "
            "WHERE held.expires <= clock_timestamp() OR held.token = ANY(%s) OR %s RETURNING token",
            (stream, token, owner_here(stream, owner), self._seconds, ours, take_over),
        ):
            # What was freed or has expired since we tried is ours to try again.
            if holder := self._run(
                "SELECT owner, ceil(extract(epoch FROM expires - clock_timestamp()))::integer "
                "FROM steptrail.leases WHERE stream = %s AND expires > clock_timestamp()",
                (stream,),
            ):
                told, seconds = holder[0]
                raise SessionBusy(stream_name(stream), f"{told}, whose lease ends in {seconds} s unless it is renewed")
        with self._lock:
            self._held.add(token)
        # A store that was closed has freed its leases, and lost none to another process.
        return HeldLease(partial(self.give_up, token), lambda: token in self._held or self._stopped.is_set())

    def acquire_at_once(self, stream: str, owner: str, *, take_over: bool) -> None:
        """Return None: a server is asked in another thread."""
        return

    def seen(self, stream: str | None = None) -> list[SeenLease] | None:
        """Return the leases of a stream, or all. Raises what the server says."""
        rows = self._run(
            "SELECT stream, owner, expires > clock_timestamp() FROM steptrail.leases "
            "WHERE %s::text IS NULL OR stream = %s ORDER BY stream",
            (stream, stream),
        )
        return [SeenLease(*row) for row in rows]

    def close(self) -> None:
        """Release every lease that was granted here. Safe to call twice. What cannot be released expires."""
        self._stopped.set()
        if self._renewer is not None:
            self._renewer.join()
        with self._lock:
            self._given_up |= self._held
            self._held.clear()
        with closing(self._connection), suppress(StoreError):
            self._free()

    def give_up(self, token: str) -> None:
        """Free a lease. Only the first call does anything."""
        with self._lock:
            if token not in self._held:
                return
            self._held.remove(token)
            self._given_up.add(token)
        self._free()

    def _free(self) -> None:
        """Free what was given up. What cannot be freed now is tried again."""
        with self._lock:
            tokens = list(self._given_up)
        if tokens:
            self._run("DELETE FROM steptrail.leases WHERE token = ANY(%s) RETURNING 1", (tokens,))
            with self._lock:
                self._given_up.difference_update(tokens)

    def _renew(self) -> None:
        while not self._stopped.wait(self._seconds / _RENEWALS):
            with self._lock:
                held = list(self._held)
            try:
                if held:
                    renewed = self._run(
                        "UPDATE steptrail.leases SET expires = clock_timestamp() + make_interval(secs => %s) "
                        "WHERE token = ANY(%s) RETURNING token",
                        (self._seconds, held),
                    )
                    with self._lock:
                        self._held -= {*held} - {token for (token,) in renewed}
                self._free()
            except Exception as error:
                # The next time, perhaps, also after a lack of memory. Until it has expired nobody else takes it.
                _log.debug("leases were not renewed: %s", said_by(error))

    def _run(self, statement: LiteralString, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        def ask() -> list[tuple[Any, ...]]:
            return self._connection.run(lambda connection: connection.execute(statement, parameters).fetchall())

        try:
            try:
                return ask()
            except ServerFailure as failure:
                if not failure.is_lost or failure.is_late:
                    raise
                # Each statement says the same when it is said twice, so a lost connection is no reason to give up.
                return ask()
        except ServerFailure as failure:
            raise translate(failure, self._name, is_writing=not statement.startswith("SELECT")) from failure
