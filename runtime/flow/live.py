"""Shows what the tries of nodes do to those who watch the run: text as a model writes it, and reported progress.

Nothing of it is stored.
"""

from collections.abc import Callable
from functools import partial

from steptrail.domain.flow.task import TaskKey, of_try
from steptrail.domain.inference import ModelDelta
from steptrail.domain.live import NodeDelta, NodeProgress, Place
from steptrail.runtime.kernel.asked_model import ShowPiece
from steptrail.runtime.kernel.live_updates import Shown, Watching


class ShownTry(Shown):
    """Shows one try of a node.

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
        tried = of_try(place, attempt)
        progress = partial(NodeProgress, session_id=session_id, execution_id=execution_id, **tried)
        super().__init__(watching, progress)
        self._forget, self._place = forget, place
        self._delta = partial(NodeDelta, session_id=session_id, execution_id=execution_id, **tried)

    def writer(self) -> ShowPiece | None:
        """Return what shows the pieces of a reply; None when nobody watches."""
        return None if self._watching() is None else self._write

    def end(self) -> None:
        """Show no more: the try has ended."""
        super().end()
        self._forget(self._place)

    def _write(self, piece: ModelDelta | None) -> None:
        self.show(self._delta(is_final=True) if piece is None else self._delta(kind=piece.kind, text=piece.text))
