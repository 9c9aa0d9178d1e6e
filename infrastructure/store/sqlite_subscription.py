"""The library's subscriptions for SQLite, which it lacks: woken by the watch of the store."""

from collections.abc import Sequence
from concurrent.futures import Future

from eventsourcing.persistence import ApplicationRecorder, ListenNotifySubscription

from steptrail.infrastructure.store.log_watch import LogWatch

__all__ = ["SQLiteSubscription"]


class SQLiteSubscription(ListenNotifySubscription[ApplicationRecorder]):
    """Yields notifications until it is stopped or the watch is closed."""

    def __init__(
        self, recorder: ApplicationRecorder, *, gt: int | None, topics: Sequence[str], watch: LogWatch
    ) -> None:
        self._watch = watch
        self._coming: Future[int] = Future()
        super().__init__(recorder, gt=gt, topics=topics)
        self._wait_past(gt or 0)

    def stop(self) -> None:
        """End the subscription; its thread ends by itself."""
        super().stop()
        self._coming.cancel()

    def _wait_past(self, position: int) -> None:
        self._coming = self._watch.past(position)
        self._coming.add_done_callback(self._came)

    def _came(self, coming: "Future[int]") -> None:
        if self._has_been_stopped:
            return
        if self._watch.is_closed:
            self.stop()
            return
        # If looking failed, the next pull fails too and says why.
        self._has_been_notified.set()
        if coming.exception() is None:
            self._wait_past(coming.result())
