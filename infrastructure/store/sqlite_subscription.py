"""Subscriptions for SQLite, which the library lacks.

A commit of this process wakes its subscriptions at once. A commit of another process changes SQLite's data version,
which is polled; that also finds what was stored between the first look and the subscription.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from eventsourcing.persistence import ApplicationRecorder, ListenNotifySubscription

__all__ = ["SQLiteSubscription"]

_POLL_SECONDS = 0.05


class SQLiteSubscription(ListenNotifySubscription[ApplicationRecorder]):
    """Yields notifications until it is stopped; `watched` is the database file, none for one in memory."""

    def __init__(
        self, recorder: ApplicationRecorder, *, gt: int | None, topics: Sequence[str], watched: str | None
    ) -> None:
        self._stopped = threading.Event()
        self._on_stop: Callable[[SQLiteSubscription], None] | None = None
        super().__init__(recorder, gt=gt, topics=topics)
        self._poller: threading.Thread | None = None
        if watched is not None:
            self._poller = threading.Thread(target=self._poll, args=(watched,), name="steptrail-poller", daemon=True)
            self._poller.start()

    def when_stopped(self, call: "Callable[[SQLiteSubscription], None]") -> None:
        """Have `call` told when this ends."""
        self._on_stop = call

    def wake(self) -> None:
        """Look for new events now."""
        self._has_been_notified.set()

    def stop(self) -> None:
        """End the subscription; its threads end by themselves."""
        super().stop()
        self._stopped.set()
        if self._on_stop is not None:
            self._on_stop(self)

    def __exit__(self, *args: object, **kwargs: Any) -> None:
        super().__exit__(*args, **kwargs)
        if self._poller is not None:
            self._poller.join()

    def _poll(self, database: str) -> None:
        seen: int | None = None
        with closing(sqlite3.connect(database, uri=True, isolation_level=None)) as connection:
            while not self._stopped.wait(_POLL_SECONDS):
                version: int = connection.execute("PRAGMA data_version").fetchone()[0]
                if version != seen:
                    seen = version
                    self.wake()
