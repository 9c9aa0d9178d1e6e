"""One thread that looks whether the log has grown, while somebody waits for that.

It compares positions, so it does not matter whether a commit came before or after somebody began to wait. A commit of
this process makes it look at once; for those of other processes it looks again and again, unless something cheaper says
that there are none. While nobody waits it sleeps.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.core.work_threads import started


class LogWatch:
    """Tells those who wait for the log to grow past a position.

    `newest` returns the position where the log ends; it is called in the thread of the watch. `poll` is how often to
    look for commits of other processes, in seconds; None when there can be none. Then `is_quiet` is asked first, which
    is cheap: where it is True nobody has committed, and the look is left out. `begin` is called when the first caller
    waits, and again if that failed: a listener that can hear of those commits starts then, and from then on calls
    `look`.
    """

    def __init__(
        self,
        newest: Callable[[], int],
        *,
        poll: float | None,
        is_quiet: Callable[[], bool] = lambda: False,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._newest, self._poll, self._is_quiet, self._begin = newest, poll, is_quiet, begin
        self._waiting: list[tuple[int, Future[int]]] = []
        self._lock = threading.Lock()
        # Held while there is no reason to look. To wait for a condition costs as much as the look.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._thread: threading.Thread | None = None
        self.is_closed = False

    def past(self, position: int) -> Future[int]:
        """Return a future of the end of the log once that is after `position`; cancel it to wait no longer.

        It fails with what `newest` raises, and with `StoreUnavailable` when the watch is closed. Its callbacks run in
        the thread of the watch. Raises `StoreUnavailable` where no thread can be started.
        """
        coming: Future[int] = Future()
        with self._lock:
            if self.is_closed:
                coming.set_exception(_closed())
                return coming
            if self._thread is None:
                self._begin()
                self._thread = started(self._run, name="steptrail-watch")
            self._waiting.append((position, coming))
            self._ring()
        return coming

    def look(self) -> None:
        """Look now, because something was stored."""
        # A reader that begins to wait after this line finds what was stored before it.
        if self._waiting:
            with self._lock:
                self._ring()

    def close(self) -> None:
        """Tell everybody who waits that the watch is over, and end its thread. Safe to call twice."""
        with self._lock:
            self.is_closed = True
            self._ring()
        if self._thread is not None:
            self._thread.join()

    def _ring(self) -> None:
        # Under the lock: nobody else lets go of the bell.
        if self._bell.locked():
            self._bell.release()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._waiting = [(position, coming) for position, coming in self._waiting if not coming.cancelled()]
            self._rest()
            if self.is_closed:
                break
            self._tell()
        for _, coming in self._waiting:
            _settle(coming, _closed())

    def _rest(self) -> None:
        if self._poll is None or not self._waiting:
            self._bell.acquire()
            return
        while not self._bell.acquire(timeout=self._poll) and self._is_quiet():
            continue

    def _tell(self) -> None:
        try:
            found: int | Exception = self._newest()
        except Exception as error:
            found = error
        with self._lock:
            told = [(p, coming) for p, coming in self._waiting if isinstance(found, Exception) or p < found]
            for waiting in told:
                self._waiting.remove(waiting)
        for _, coming in told:
            _settle(coming, found)


def _settle(coming: "Future[int]", found: int | Exception) -> None:
    if not coming.set_running_or_notify_cancel():
        return
    if isinstance(found, Exception):
        coming.set_exception(found)
    else:
        coming.set_result(found)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the store was closed while somebody waited for its next event")
