"""One connection that hears of commits, of this process and of others, once a caller waits for the log to grow.

Silence is no proof: an announcement is lost while the connection is being made anew. So the watch also looks by itself
from time to time.
"""

import selectors
import socket
from collections.abc import Callable

from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, attempt
from steptrail.infrastructure.store.postgres.listening_thread import ListeningThread
from steptrail.infrastructure.store.postgres.schema import CHANNEL


class NotificationListener(ListeningThread):
    """Calls `tell`, which must not raise or wait, from its own thread whenever something may have been stored."""

    def __init__(self, connections: PostgresConnections, tell: Callable[[], None]) -> None:
        super().__init__(connections, name="steptrail-listener")
        self._tell = tell

    def begin(self) -> None:
        """Listen from now on. Safe to call twice, and after `close`."""
        self.start(self._listen)

    def _listen(self, connection: Connection, news: selectors.BaseSelector, _: socket.socket) -> None:
        attempt(connection, lambda c: c.execute(f"LISTEN {CHANNEL}"))
        while not self.is_closed:
            # First, for what was announced before we listened.
            self._tell()
            news.select()
            if not self.is_closed:
                attempt(connection, lambda c: list(c.notifies(timeout=0)))
