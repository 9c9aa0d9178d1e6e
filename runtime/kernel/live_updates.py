"""Functions that watch a run live, and how they are called. A watcher that fails does not disturb the run."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from steptrail.domain.live import LiveUpdate, OutputPartial, ReplyDelta, UpdatesLost

__all__ = ["OnUpdate", "Watching", "joined", "tell"]

OnUpdate: TypeAlias = Callable[[LiveUpdate], None]
"""A watcher: it is called with each live update, in the run's event loop. An exception of it is only logged."""

Watching: TypeAlias = Callable[[], OnUpdate | None]
"""Returns the present watcher of a run; None when nobody watches. It is asked again, because watchers come and go."""

_log = logging.getLogger("steptrail.runs")


def tell(watcher: OnUpdate, update: LiveUpdate) -> None:
    """Show an update to a watcher."""
    try:
        watcher(update)
    except Exception:
        _log.exception("a watcher failed on a live update of session %s", update.session_id)


def joined(
    last: LiveUpdate | UpdatesLost | None, update: LiveUpdate, *, at_most: int | None = None
) -> ReplyDelta | OutputPartial | None:
    """Join two pieces of one reply to one of at most `at_most` characters; None when they cannot be joined.

    Of two partial answers of one reply the newer is left.
    """
    if isinstance(last, OutputPartial) and isinstance(update, OutputPartial):
        return update if (last.step, last.attempt) == (update.step, update.attempt) else None
    if not isinstance(last, ReplyDelta) or not isinstance(update, ReplyDelta) or update.is_final or last.is_final:
        return None
    same = (last.execution_id, last.step, last.attempt, last.kind)
    if same != (update.execution_id, update.step, update.attempt, update.kind):
        return None
    if at_most is not None and len(last.text) + len(update.text) > at_most:
        return None
    return replace(last, text=last.text + update.text)
