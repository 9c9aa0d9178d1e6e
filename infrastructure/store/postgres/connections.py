"""Connections to PostgreSQL: one that writes, a few that read, and others for those who must not wait for these.

A connection that breaks is thrown away and the next question opens a new one, so a restarted server needs no action of
ours. A question is asked again once on a new connection, because it changes nothing; a write never is, as it may have
been stored.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.driver import (
    GAVE_WAY,
    ONLY_READS,
    Connection,
    ServerFailure,
    attempt,
    connect,
    has_something_to_say,
    take_answer,
)
from steptrail.infrastructure.store.postgres.errors import translate, unreachable
from steptrail.infrastructure.store.postgres.pooler import check_sessions

T = TypeVar("T")
Work = Callable[[Connection], T]

_TO_LET_OTHERS_PASS = (0.05, 0.2, 1.0)
"""Seconds before each further try of a write that the server undid: at once, it would stand in the same way again."""
_FAREWELL_SECONDS = 3.0
"""How long the server has to answer what is under way when the store is closed."""


class PostgresConnections:
    """Makes connections with the settings of the store, and runs work on them.

    `patience` is how long a write waits for another process, in seconds. As many questions are asked at once as the
    address says, and the next one waits.
    """

    def __init__(
        self, address: PostgresAddress, *, durability: Durability, patience: float, read_only: bool = False
    ) -> None:
        self.address, self.is_read_only = address, read_only
        self._durability, self._patience = durability, patience
        self._writer = SteadyConnection(self)
        self._idle: list[Connection] = []
        self._free = threading.BoundedSemaphore(address.readers)
        self._lock = threading.Lock()
        self._is_closed, self._gives_up_at = False, math.inf
        self._longest = address.answer_timeout + patience
        self._is_checked = False

    def open(self) -> Connection:
        """Return a new connection, which the caller closes. Raises `StoreUnavailable` that says what is wrong."""
        longest = round(self._longest * 1000)
        settings = (
            # 0 would mean to wait for ever.
            max(1, round(self._patience * 1000)),
            longest,
            longest,
            self._durability == "full",
            self.is_read_only,
        )
        connection = self._dialled()
        try:
            if not self._is_checked:
                check_sessions(connection, self._dialled, self.address.name)
                self._is_checked = True
            row = attempt(connection, lambda c: c.execute(_SETTINGS, settings).fetchone())
            connection.server = "" if row is None else row[0]
        except ServerFailure as failure:
            connection.close()
            raise unreachable(failure, self.address.name) from None
        except StoreUnavailable:
            connection.close()
            raise
        return connection

    def read(self, work: Work[T]) -> T:
        """Return `work(connection)`, which only asks. Raises `StoreError`."""
        try:
            return self._read(work)
        except ServerFailure as failure:
            if not failure.is_lost or failure.is_late:
                raise translate(failure, self.address.name) from failure
        with self._lock:
            # If one was lost the others are likely to be: none of them is worth trying.
            stale, self._idle = self._idle, []
        for connection in stale:
            connection.close()
        try:
            return self._read(work)
        except ServerFailure as failure:
            raise translate(failure, self.address.name) from failure

    def write(self, work: Work[T]) -> T:
        """Return `work(connection)` with no other writer of this process beside it.

        It is one transaction, and is done again when the server undid it in favour of another one. Raises
        `ServerFailure`, and `StoreUnavailable` when no connection could be made and therefore no row was written.
        """
        for seconds in _TO_LET_OTHERS_PASS:
            try:
                return self._writer.run(work)
            except ServerFailure as failure:
                if failure.is_lost or failure.state not in GAVE_WAY:
                    raise
            time.sleep(seconds)
        return self._writer.run(work)

    def hurry(self) -> None:
        """Have all that waits for the server now or later give up in a few seconds: the caller closes soon."""
        self._gives_up_at = min(self._gives_up_at, time.monotonic() + _FAREWELL_SECONDS)

    def close(self) -> None:
        """Close every connection, in a few seconds if the server does not answer. Safe to call twice."""
        self.hurry()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._writer.close()

    def check_open(self) -> None:
        """Raise `StoreUnavailable` after `close`."""
        if self._is_closed:
            raise StoreUnavailable(f"the store {self.address.name} is closed")

    def _dialled(self) -> Connection:
        """Return a connection on which nothing was set."""
        try:
            return connect(self.address.parameters, patience=self._longest, gives_up_at=lambda: self._gives_up_at)
        except ServerFailure as failure:
            raise unreachable(failure, self.address.name) from None

    def _read(self, work: Work[T]) -> T:
        with self._free:
            with self._lock:
                self.check_open()
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.open()
            try:
                return attempt(connection, work)
            finally:
                with self._lock:
                    is_kept = not connection.closed and not self._is_closed
                    if is_kept:
                        self._idle.append(connection)
                if not is_kept:
                    connection.close()


class SteadyConnection:
    """One connection with a lock before it, made when first needed and made anew when it has broken."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def run(self, work: Work[T]) -> T:
        """Return `work(connection)`. Raises `ServerFailure`, and `StoreUnavailable` when there is no connection."""
        with self._lock:
            self._connections.check_open()
            connection = self._whole()
            try:
                return attempt(connection, work)
            except ServerFailure as failure:
                if failure.state == ONLY_READS and not self._connections.is_read_only:
                    # One that began while a database was set to be read only stays so when it may be written again.
                    connection.close()
                raise

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _whole(self) -> Connection:
        connection = self._connection
        if connection is not None:
            take_answer(connection)
        if connection is not None and (connection.closed or has_something_to_say(connection)):
            # What is said unasked may be a parameter that was changed; but making a new one is always right.
            connection.close()
            connection = None
        self._connection = connection or self._connections.open()
        return self._connection


# Readers of the log wait for what is in flight, so an append must end, whatever becomes of its client.
# A server that may be set to lose commits is told otherwise; one that does more than reach its own disk still may.
# A plan that a connection made while the store was small is kept while it grows. What pays for a few rows, to read the
# table or all of a stream, would then be done for ever more of them; whatever we ask has an index that gives the order.
# The server takes what it is told to avoid for very expensive, where it has nothing else, and would compile it.
# The driver reads instants and intervals in one style only, and a number must come with all of its digits.
_SETTINGS = """
SELECT pg_postmaster_start_time()::text,
       set_config('lock_timeout', %s::bigint::text, false),
       set_config('statement_timeout', %s::bigint::text, false),
       set_config('idle_in_transaction_session_timeout', %s::bigint::text, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE
           WHEN NOT %s THEN 'off'
           WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
           ELSE current_setting('synchronous_commit') END, false),
       CASE WHEN %s THEN set_config('default_transaction_read_only', 'on', false) END,
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('jit', 'off', false),
       set_config('DateStyle', 'ISO', false),
       set_config('IntervalStyle', 'postgres', false),
       set_config('extra_float_digits', '1', false)
"""
