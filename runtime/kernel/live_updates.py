"""The way of live updates to those who watch a run. A watcher that fails harms nobody."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from steptrail.domain.live import LiveUpdate, ReplyDelta, UpdatesLost

__all__ = ["OnUpdate", "Watching", "joined", "tell"]

OnUpdate: TypeAlias = Callable[[LiveUpdate], None]
"""Told of live updates of this process, in the run's event loop. What it raises is logged and harms nobody."""

Watching: TypeAlias = Callable[[], OnUpdate | None]
"""Says who watches a run now, if anybody does: people come and go while it goes on."""

_log = logging.getLogger("steptrail.runs")


def tell(watcher: OnUpdate, update: LiveUpdate) -> None:
    """Show an update to a watcher."""
    try:
        watcher(update)
    except Exception:
        _log.exception("a watcher failed on a live update of session %s", update.session_id)


def joined(
    last: LiveUpdate | UpdatesLost | None, update: LiveUpdate, *, at_most: int | None = None
) -> ReplyDelta | None:
    """Return two pieces of one reply as one piece of at most `at_most` characters; None when they stay two."""
    if not isinstance(last, ReplyDelta) or not isinstance(update, ReplyDelta) or update.is_final or last.is_final:
        return None
    same = (last.execution_id, last.step, last.attempt, last.kind)
    if same != (update.execution_id, update.step, update.attempt, update.kind):
        return None
    if at_most is not None and len(last.text) + len(update.text) > at_most:
        return None
    return replace(last, text=last.text + update.text)
