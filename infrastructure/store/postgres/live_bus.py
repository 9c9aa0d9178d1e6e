"""Live updates between processes, by NOTIFY: on a connection of its own, outside of every commit.

A process listens to one channel for all, and to one that is its own. What the server does not take is lost, and so is
what comes while the connection is made anew.
"""

import selectors
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, attempt
from steptrail.infrastructure.store.postgres.listening_thread import ListeningThread
from steptrail.runtime.kernel.live_bus import Letter, LiveTraffic

if TYPE_CHECKING:
    import psycopg

_CHANNEL = "steptrail_live"
_SEND = (
    "SELECT pg_notify(channel, words) FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY "
    "AS letters (channel, words, number) ORDER BY number"
)
_PAUSE_SECONDS = 0.1
"""A process whose runs have ended by then, and who follows nothing, needs no connection for this."""
_PATIENCE_SECONDS = 2.0
"""A server that does not answer for so long has lost what was sent; and a store that is closed waits for us."""


class PostgresLiveBus:
    """Implements `LiveBus`. The server takes less than 8,000 bytes at once."""

    most_bytes = 7_000

    def __init__(self, connections: PostgresConnections) -> None:
        self._thread = ListeningThread(connections, name="steptrail-live", pause=_PAUSE_SECONDS)

    def begin(self, traffic: LiveTraffic) -> None:
        """Begin to carry the messages of this process. Safe to call often, and after `close`."""
        # Without a thread nothing is carried, until one can be started.
        with suppress(StoreUnavailable):
            self._thread.start(partial(self._listen, traffic))

    def wake(self) -> None:
        """Ask `due` soon. May be called from any thread."""
        self._thread.wake()

    def close(self) -> None:
        """End it. Safe to call twice."""
        self._thread.close()

    def _listen(
        self, traffic: LiveTraffic, connection: Connection, news: selectors.BaseSelector, ears: socket.socket
    ) -> None:
        heard = list[str]()

        def take(notification: "psycopg.Notify") -> None:
            heard.append(notification.payload)

        connection.patience = _PATIENCE_SECONDS
        connection.add_notify_handler(take)
        channels = f"LISTEN {_CHANNEL}; LISTEN {_own_channel(traffic.name)}"
        attempt(connection, lambda c: c.execute(f"SET synchronous_commit TO off; {channels}".encode()))
        traffic.connected()
        while not self._thread.is_closed:
            letters, wait = traffic.due()
            if letters:
                attempt(connection, partial(_send, letters))
            elif any(key.fileobj is ears for key, _ in news.select(wait)):
                ears.recv(4096)
            attempt(connection, lambda c: heard.extend(_arrived(c)))
            for text in heard:
                traffic.heard(text)
            heard.clear()


def _send(letters: Sequence[Letter], connection: Connection) -> None:
    channels = [_CHANNEL if letter.to is None else _own_channel(letter.to) for letter in letters]
    connection.execute(_SEND, (channels, [letter.text for letter in letters]))


def _own_channel(name: str) -> str:
    return f"{_CHANNEL}_{name}"


def _arrived(connection: Connection) -> list[str]:
    """Return what has arrived without being asked for; what arrives with an answer goes to the handler."""
    connection.pgconn.consume_input()
    found = list[str]()
    while (notification := connection.pgconn.notifies()) is not None:
        found.append(notification.extra.decode())
    return found
