"""Shows what the tries of nodes do to those who watch the run: text as a model writes it, and reported progress.

Nothing of it is stored.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from steptrail.domain.flow.task import TaskKey, of_try
from steptrail.domain.inference import ModelDelta
from steptrail.domain.live import LiveUpdate, NodeDelta, NodeProgress, Place
from steptrail.runtime.kernel.asked_model import ShowPiece
from steptrail.runtime.kernel.live_updates import Watching, tell
from steptrail.runtime.kernel.thread_calls import call_in_loop


class ShownTry:
    """Shows one try of a node. It belongs to the event loop in which it was made.

    `forget` drops what is kept of a place for followers. It is called when the try has ended.
    """

    def __init__(
        self,
        watching: Watching,
        forget: Callable[[Place], None],
        *,
        session_id: str,
        execution_id: str,
        place: TaskKey,
        attempt: int,
    ) -> None:
        self._watching, self._forget, self._place = watching, forget, place
        self._loop, self._thread, self._has_ended = asyncio.get_running_loop(), threading.get_ident(), False
        tried = of_try(place, attempt)
        self._delta = partial(NodeDelta, session_id=session_id, execution_id=execution_id, **tried)
        self._progress = partial(NodeProgress, session_id=session_id, execution_id=execution_id, **tried)

    def report(self, message: str, done: float | None, total: float | None) -> None:
        """Show how far the try has come. May be called in any thread."""
        if self._watching() is None:
            return
        update = self._progress(message=message, done=done, total=total)
        if threading.get_ident() == self._thread:
            self._show(update)
        else:
            call_in_loop(self._loop, self._show, update)

    def writer(self) -> ShowPiece | None:
        """Return what shows the pieces of a reply; None when nobody watches."""
        return None if self._watching() is None else self._write

    def end(self) -> None:
        """Show no more: the try has ended."""
        self._has_ended = True
        self._forget(self._place)

    def _write(self, piece: ModelDelta | None) -> None:
        self._show(self._delta(is_final=True) if piece is None else self._delta(kind=piece.kind, text=piece.text))

    def _show(self, update: LiveUpdate) -> None:
        # What was given up may still report, from its thread, long after the try has ended.
        watcher = self._watching()
        if watcher is not None and not self._has_ended:
            tell(watcher, update)
