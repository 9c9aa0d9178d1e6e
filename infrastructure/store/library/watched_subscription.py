"""The library's subscriptions, on every database: woken by the watch of the store."""

from collections.abc import Sequence
from concurrent.futures import Future

from eventsourcing.persistence import ApplicationRecorder, ListenNotifySubscription, OperationalError

from steptrail.infrastructure.store.core.log_watch import LogWatch


class WatchedSubscription(ListenNotifySubscription[ApplicationRecorder]):
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

    def _pull(self) -> None:
        try:
            super()._pull()
        except OperationalError:
            # A pull may find the store closed before this subscription is told.
            if not self._watch.is_closed:
                raise
            self.stop()

    def _wait_past(self, position: int) -> None:
        self._position = position
        self._coming = self._watch.past(position)
        self._coming.add_done_callback(self._came)

    def _came(self, coming: "Future[int]") -> None:
        if self._has_been_stopped:
            return
        if self._watch.is_closed:
            self.stop()
            return
        # If looking failed, the pull fails too and says why, or it was a moment's trouble and we go on.
        self._has_been_notified.set()
        self._wait_past(self._position if coming.exception() else coming.result())
