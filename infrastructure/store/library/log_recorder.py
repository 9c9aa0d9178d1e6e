"""The part of the library's recorders that is the same over each of our databases: the log, and subscriptions to it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar, cast
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    Subscription,
)

from steptrail.domain.base import LARGEST
from steptrail.infrastructure.store.core.contents import joined
from steptrail.infrastructure.store.core.log_watch import LogWatch
from steptrail.infrastructure.store.core.recorder import Recorder

T = TypeVar("T")


class LogRecorder(Recorder, ApplicationRecorder):
    """A recorder of ours that shows the library its log. It stands in front of the bases that it is mixed with."""

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return the events from position `start` to `stop`, at most `limit`, as the library's notifications."""
        until = LARGEST if stop is None else stop
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        rows = self._in_its_words(lambda: self.select_log(after, limit, topics, None, heads=False, until=until))
        return [
            Notification(self._shown_id(stream), version, topic, joined(topic, state, content), id=position)
            for position, stream, version, topic, _, state, content, *_ in rows
        ]

    def max_notification_id(self) -> int:
        """Return the newest position; None when there is none, whatever the library says of the type."""
        return cast("int", self._in_its_words(self.select_last_position) or None)

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Return a subscription to the events after position `gt`, of this process and of others."""
        return WatchedSubscription(self, gt=gt, topics=topics, watch=self.watch)

    def _shown_id(self, stream: str) -> UUID | str:
        """Return the id of a stream as the library is to have it."""
        return stream

    @abstractmethod
    def _in_its_words(self, work: Callable[[], T]) -> T:
        """Return `work()`. Raises the errors of the library in place of those of the database."""


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
