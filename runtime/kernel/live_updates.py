"""Functions that watch a run live, and how they are called. A watcher that fails does not disturb the run."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from msgspec.structs import replace

from steptrail.domain.kernel.given import a_plain_function
from steptrail.domain.live import LiveUpdate, OutputPartial, Progress, TextDelta, UpdatesLost
from steptrail.domain.storable import as_unicode, is_unicode
from steptrail.runtime.kernel.log_raised import log_first, log_raised
from steptrail.runtime.kernel.thread_calls import call_in_loop

OnUpdate: TypeAlias = Callable[[LiveUpdate], None]
"""A watcher: it is called with each live update, in the run's event loop. An exception of it is only logged."""

Watching: TypeAlias = Callable[[], OnUpdate | None]
"""Returns the present watcher of a run; None when nobody watches. It is asked again, because watchers come and go."""

LONGEST_JOINED = 4_096
"""Characters of one piece. A longer one is not added to: each piece of a long reply would copy all that is written."""
_MOST_LOOKED_AT = 64
"""Updates that are waiting, and looked at for one of the same place."""

_log = logging.getLogger("steptrail.runs")


def tell(watcher: OnUpdate, update: LiveUpdate) -> None:
    """Show an update to a watcher."""
    try:
        watcher(_readable(update))
    except (Exception, asyncio.CancelledError) as error:  # a plain function is cancelled by nobody else
        log_raised(_log, error, "a watcher failed on a live update of session %s", update.session_id)


class Shown:
    """Shows what one effect does, until it has ended, to those who watch. It belongs to the loop of its maker.

    `progress` makes the update that says how far the effect has come.
    """

    def __init__(self, watching: Watching, progress: Callable[..., Progress]) -> None:
        self._watching, self._progress, self._has_ended = watching, progress, False
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def report(self, message: str, done: float | None, total: float | None) -> None:
        """Show how far the effect has come. May be called in any thread."""
        if self._watching() is None:
            return
        update = self._progress(message=message, done=done, total=total)
        if threading.get_ident() == self._thread:
            self.show(update)
        else:
            call_in_loop(self._loop, self.show, update)

    def show(self, update: LiveUpdate) -> None:
        """Show an update. What was given up may still report, from its thread, long after the effect has ended."""
        watcher = self._watching()
        if watcher is not None and not self._has_ended:
            tell(watcher, update)

    def end(self) -> None:
        """Show no more: the effect has ended."""
        self._has_ended = True


def watcher_of(on_update: OnUpdate | None) -> OnUpdate | None:
    """Return the watcher that a caller gave, whose failures are logged once for each type of update.

    Raises `ConfigurationError` for what is no plain function.
    """
    if on_update is None:
        return None
    watcher, failed_on = a_plain_function(on_update, "`on_update`", "an update"), set[type[object]]()

    def watch(update: LiveUpdate) -> None:
        try:
            watcher(update)
        except (Exception, asyncio.CancelledError) as error:
            log_first(_log, error, "a watcher", update, update.session_id, failed_on)

    return watch


def _readable(update: LiveUpdate) -> LiveUpdate:
    """Return an update whose words can be sent: a driver or a tool may show what is text for Python alone."""
    if isinstance(update, TextDelta) and not is_unicode(update.text):
        return replace(update, text=as_unicode(update.text))
    if isinstance(update, Progress) and not is_unicode(update.message):
        return replace(update, message=as_unicode(update.message))
    return update


def writes_nothing(update: LiveUpdate) -> bool:
    """Tell that no update is of a reply that is being written."""
    return False


def joined(last: LiveUpdate | UpdatesLost | None, update: LiveUpdate) -> TextDelta | OutputPartial | None:
    """Join two pieces of one reply to one of at most `LONGEST_JOINED` characters; None when they cannot be joined.

    Of two partial answers of one reply the newer is left.
    """
    if isinstance(last, OutputPartial) and isinstance(update, OutputPartial):
        return update if (last.step, last.attempt) == (update.step, update.attempt) else None
    if not isinstance(last, TextDelta) or not isinstance(update, TextDelta) or update.is_final or last.is_final:
        return None
    if last.kind != update.kind or last.reply != update.reply:
        return None
    if len(last.text) + len(update.text) > LONGEST_JOINED:
        return None
    return replace(last, text=last.text + update.text)


def joined_back(earlier: Iterable[LiveUpdate], update: LiveUpdate) -> tuple[int, LiveUpdate] | None:
    """Join an update to the newest of the `earlier` ones of its place, which are given newest first.

    Returns how far back that one is, from 1, and what is left of the two; None when they cannot be joined.
    """
    for back, last in enumerate(islice(earlier, _MOST_LOOKED_AT), 1):
        more = joined(last, update)
        if more is not None:
            return back, more
        if last.place == update.place:
            break
    return None
