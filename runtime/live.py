"""The way of live updates to whoever watches a run. A watcher that fails harms nobody."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from steptrail.domain.live import LiveUpdate

__all__ = ["OnUpdate", "tell"]

OnUpdate: TypeAlias = Callable[[LiveUpdate], None]
"""Told of live updates of this process, in the run's event loop. What it raises is logged and harms nobody."""

_log = logging.getLogger("steptrail")


def tell(watcher: OnUpdate, update: LiveUpdate) -> None:
    """Show an update to a watcher."""
    try:
        watcher(update)
    except Exception:
        _log.exception("a watcher failed on a live update of session %s", update.agent_id)
