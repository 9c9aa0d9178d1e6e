"""Who watches all sessions of a process: told of every commit with the state before it, and asked who watches live."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.live_updates import OnUpdate

__all__ = ["CommitObserver", "Observer"]

S_contra = TypeVar("S_contra", bound=FoldedState, contravariant=True)
E_contra = TypeVar("E_contra", bound=Event, contravariant=True)


class CommitObserver(Protocol[S_contra, E_contra]):
    """Told of commits."""

    is_watching: bool
    """Whether there is anybody to tell: while it is false nothing else is asked."""

    def committed(self, before: S_contra, records: Sequence[Recorded[E_contra]]) -> None:
        """Take note of a durable commit, `before` being the state that it was appended to."""
        ...


class Observer(CommitObserver[S_contra, E_contra], Protocol[S_contra, E_contra]):
    """Told of commits, and of live updates by whoever it names."""

    def watcher(self, own: OnUpdate | None) -> OnUpdate | None:
        """Return who is to be told of live updates of a run that `own` watches, or nothing when nobody is."""
        ...
