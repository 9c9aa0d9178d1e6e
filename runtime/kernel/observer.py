"""Who watches all streams of a process: told of every commit with the state before it, and asked who watches live."""

from collections.abc import Sequence
from typing import Any, Protocol

from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.live_updates import OnUpdate

__all__ = ["Observer"]


class Observer(Protocol):
    """Is told of commits, and chooses the watcher of live updates."""

    is_watching: bool
    """Whether it has anybody to tell: while it is false it is not asked any further."""

    def committed(self, stream: str, before: FoldedState, records: Sequence[Recorded[Any]]) -> None:
        """Take note of a durable commit to a stream, `before` being the state that it was appended to."""
        ...

    def watcher(self, own: OnUpdate | None) -> OnUpdate | None:
        """Return who is to be told of live updates of a run that `own` watches, or None when nobody is."""
        ...
