"""A thread that listens to the server on a connection of its own, which is made anew whenever it breaks."""

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.infrastructure.store.core.file_errors import file_error
from steptrail.infrastructure.store.core.work_threads import started
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, Ears, ServerFailure

Listen = Callable[[Connection, selectors.BaseSelector, socket.socket], None]

_SECONDS_BEFORE_THE_NEXT_TRY = 1.0


class ListeningThread:
    """Begins with `start` and ends with `close`. It first waits for `pause` seconds, unless it is woken."""

    def __init__(self, connections: PostgresConnections, *, name: str, pause: float = 0.0) -> None:
        self._connections, self._name, self._pause = connections, name, pause
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._mouth: socket.socket | None = None
        self.is_closed = False

    def start(self, listen: Listen) -> None:
        """Call `listen` with a connection, a selector and a socket, again and again.

        Safe to call often, and after `close`. The socket can be read when the thread was woken, or is to end; the
        selector waits for that and for the server. `listen` returns when `is_closed`, and raises `ServerFailure` when
        the connection is of no use any more. Raises `StoreUnavailable` without a thread, or a file for the socket.
        """
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self.is_closed:
                try:
                    ears, mouth = socket.socketpair()
                except OSError as error:
                    raise file_error(error, f"the line of {self._name}") from error
                mouth.setblocking(False)
                try:
                    self._thread = started(self._run, listen, ears, name=self._name)
                except StoreUnavailable:
                    ears.close()
                    mouth.close()
                    raise
                self._mouth = mouth

    def wake(self) -> None:
        """Let the thread read its socket soon. May be called from any thread."""
        if (mouth := self._mouth) is not None:
            with suppress(OSError):  # it is being closed, or has a thousand calls to answer already
                mouth.send(b"\0")

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        with self._lock:
            self.is_closed = True
            mouth, self._mouth = self._mouth, None
        if mouth is not None and self._thread is not None:
            mouth.close()
            self._thread.join()

    def _run(self, listen: Listen, ears: socket.socket) -> None:
        with ears, Ears() as woken:
            woken.register(ears, selectors.EVENT_READ)
            woken.select(self._pause)
            while not self.is_closed:
                try:
                    with closing(self._connections.open()) as connection, Ears() as news:
                        news.register(ears, selectors.EVENT_READ)
                        news.register(connection.fileno(), selectors.EVENT_READ)
                        listen(connection, news, ears)
                except (StoreError, ServerFailure):
                    # A standby does not listen at all, and asking again at once would never end.
                    self._rest(woken, ears)

    def _rest(self, woken: selectors.BaseSelector, ears: socket.socket) -> None:
        if woken.select(0):
            ears.recv(4096)
        if not self.is_closed:
            woken.select(_SECONDS_BEFORE_THE_NEXT_TRY)
