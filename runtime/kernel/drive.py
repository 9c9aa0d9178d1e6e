"""The loop: ask the machine for the next effect, perform it, and repeat, until none is left that can be done here.

It knows no kind of machine. Running and resuming are this same loop, because it depends on the state alone.
"""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import FoldedState, Machine
from steptrail.runtime.kernel.journal import Journal

S = TypeVar("S", bound=FoldedState)
E = TypeVar("E", bound=Event)
F = TypeVar("F")
F_contra = TypeVar("F_contra", contravariant=True)


class Performer(Protocol[F_contra]):
    """Performs the effects of a machine, and records the events that follow from them."""

    def at_work(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager, entered when a segment begins and left when this process is done with it.

        What opens the segment is not stored yet when it is entered. No effect is in flight when it is left, and the
        stream is still owned.
        """
        ...

    def is_for_somebody_else(self, effect: F_contra, /) -> bool:
        """Tell whether the effect cannot be performed here: it is for a person, another process, or a later time."""
        ...

    async def perform(self, effect: F_contra, /) -> None:
        """Perform the effect. If it reaches outside the process, the journal is flushed first."""
        ...


async def drive(machine: Machine[S, Any, E, F], journal: Journal[S, E], performer: Performer[F]) -> S:
    """Perform effects until none is due, or the next cannot be performed here; return the stored state."""
    while True:
        state = journal.ask()
        effects = machine.next_effects(state, state.as_of)
        if effects and not performer.is_for_somebody_else(effects[0]):
            await performer.perform(effects[0])
        elif await journal.flush():
            return journal.state
