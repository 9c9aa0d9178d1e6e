"""The observer of all streams of a process: it is told of every commit, and chooses the watcher of each run."""

from collections.abc import Sequence
from typing import Any, Protocol

from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.live_updates import OnUpdate


class Observer(Protocol):
    """Is told of commits, and chooses the watcher of live updates."""

    is_watching: bool
    """Whether the observer wants to be told of commits now."""

    def committed(self, stream: str, before: FoldedState, records: Sequence[Recorded[Any]]) -> None:
        """Be told of a durable commit to a stream. `before` is the state that the commit was appended to."""
        ...

    def watcher(self, own: OnUpdate | None) -> OnUpdate | None:
        """Return the watcher of a run, which has to call `own` as well; None when the run needs no watcher."""
        ...
