"""One connection that hears of commits, of this process and of others, once somebody wants to know.

Hearing nothing proves nothing: an announcement is lost while the connection is being made anew. So the watch also looks
for itself from time to time.
"""

import os
import select
import threading
from collections.abc import Callable

from steptrail.domain.errors import StoreError
from steptrail.infrastructure.store.postgres_connections import PostgresConnections
from steptrail.infrastructure.store.postgres_driver import Connection, ServerFailure, attempt
from steptrail.infrastructure.store.postgres_schema import CHANNEL

__all__ = ["Listener"]

_SECONDS_BEFORE_THE_NEXT_TRY = 1.0


class Listener:
    """Calls `tell`, which must not raise or wait, from its own thread whenever something may have been stored."""

    def __init__(self, connections: PostgresConnections, tell: Callable[[], None]) -> None:
        self._connections, self._tell = connections, tell
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._ears, self._mouth = os.pipe()

    def start(self) -> None:
        """Listen from now on. Safe to call twice, and after `close`."""
        with self._lock:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="steptrail-listener", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        os.write(self._mouth, b"x")
        if self._thread is not None:
            self._thread.join()
        os.close(self._ears)
        os.close(self._mouth)

    def _run(self) -> None:
        while not self._is_closed:
            try:
                connection = self._connections.open()
            except StoreError:
                self._pause()
                continue
            try:
                self._listen(connection)
            except ServerFailure:
                # A standby does not listen at all, and asking again at once would never end.
                self._pause()
            finally:
                connection.close()

    def _pause(self) -> None:
        select.select([self._ears], [], [], _SECONDS_BEFORE_THE_NEXT_TRY)

    def _listen(self, connection: Connection) -> None:
        attempt(connection, lambda c: c.execute(f"LISTEN {CHANNEL}"))
        while not self._is_closed:
            # First, for what was announced before we listened.
            self._tell()
            select.select([self._ears, connection.fileno()], [], [])
            if not self._is_closed:
                attempt(connection, lambda c: list(c.notifies(timeout=0)))
