"""One connection that hears of commits, of this process and of others, once a caller waits for the log to grow.

Silence is no proof: an announcement is lost while the connection is being made anew. So the watch also looks by itself
from time to time.
"""

import selectors
import socket
import threading
from collections.abc import Callable

from steptrail.domain.errors import StoreError
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, ServerFailure, attempt
from steptrail.infrastructure.store.postgres.schema import CHANNEL

__all__ = ["NotificationListener"]

_SECONDS_BEFORE_THE_NEXT_TRY = 1.0


class NotificationListener:
    """Calls `tell`, which must not raise or wait, from its own thread whenever something may have been stored."""

    def __init__(self, connections: PostgresConnections, tell: Callable[[], None]) -> None:
        self._connections, self._tell = connections, tell
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._mouth: socket.socket | None = None

    def start(self) -> None:
        """Listen from now on. Safe to call twice, and after `close`."""
        with self._lock:
            if self._thread is None and not self._is_closed:
                ears, self._mouth = socket.socketpair()
                self._thread = threading.Thread(target=self._run, args=(ears,), name="steptrail-listener", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        with self._lock:
            self._is_closed = True
            mouth, self._mouth = self._mouth, None
        if mouth is not None and self._thread is not None:
            mouth.close()
            self._thread.join()

    def _run(self, ears: socket.socket) -> None:
        # The other end is closed when we are to end, which can be read.
        with ears, selectors.DefaultSelector() as ending:
            ending.register(ears, selectors.EVENT_READ)
            while not self._is_closed:
                try:
                    connection = self._connections.open()
                    try:
                        self._listen(connection, ears)
                    finally:
                        connection.close()
                except (StoreError, ServerFailure):
                    # A standby does not listen at all, and asking again at once would never end.
                    ending.select(_SECONDS_BEFORE_THE_NEXT_TRY)

    def _listen(self, connection: Connection, ears: socket.socket) -> None:
        attempt(connection, lambda c: c.execute(f"LISTEN {CHANNEL}"))
        with selectors.DefaultSelector() as news:
            news.register(ears, selectors.EVENT_READ)
            news.register(connection.fileno(), selectors.EVENT_READ)
            while not self._is_closed:
                # First, for what was announced before we listened.
                self._tell()
                news.select()
                if not self._is_closed:
                    attempt(connection, lambda c: list(c.notifies(timeout=0)))
