"""The loop: ask the machine for the next effect, perform it, ask again, until none is left that can be done here.

It knows no kind of machine. Running and resuming are this same loop, because it goes by the state alone.
"""

from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import FoldedState, Machine
from steptrail.runtime.kernel.journal import Journal

__all__ = ["Performer", "drive"]

S = TypeVar("S", bound=FoldedState)
E = TypeVar("E", bound=Event)
F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)


class Performer(Protocol[F_contra]):
    """Does what a machine asks for, and records what happened."""

    def at_work(self) -> AbstractContextManager[None]:
        """Return what is entered when a segment is stored, and left when this process has done what it can in it."""
        ...

    def is_for_somebody_else(self, effect: F_contra, /) -> bool:
        """Tell whether this cannot be done here and now: by a person, by another process, or only later."""
        ...

    async def perform(self, effect: F_contra, /) -> None:
        """Do it. What led here is flushed first when it leaves the process."""
        ...


async def drive(machine: Machine[S, Any, E, F], journal: Journal[S, E], performer: Performer[F]) -> S:
    """Perform effects until none is due, or the next is for somebody else; return the stored state."""
    while True:
        state = journal.ask()
        effects = machine.next_effects(state, state.as_of)
        if effects and not performer.is_for_somebody_else(effects[0]):
            await performer.perform(effects[0])
        elif await journal.flush():
            return journal.state
