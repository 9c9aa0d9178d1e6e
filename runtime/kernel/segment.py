"""A segment: the part of a run that one process drives without a break. Only the holder of the lease opens one.

What begins a run is stored with what comes first in it, in one commit: a run of a few steps is cheaper for that.
Nothing of it has met the outside world before, and no code of the user has run.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from steptrail.domain.errors import OwnershipLost, StoreError, stream_name
from steptrail.domain.kernel.commands import Leave, OwnersCommand
from steptrail.domain.kernel.machine import C, E, F, Machine, S
from steptrail.domain.live import Place
from steptrail.runtime.kernel.cancellation import outlast
from steptrail.runtime.kernel.collector import collector_seldom
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.running_effects import InFlight

F_contra = TypeVar("F_contra", contravariant=True)

_log = logging.getLogger("steptrail.runs")

_AT_ONCE = 128
"""How many effects are performed before others have the event loop."""


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
    """Perform effects until none is due, or the next cannot be performed here; return the stored state.

    What only records events waits for nothing, and a run may have thousands of such effects one after the other.
    """
    performed = 0
    while True:
        if performed == _AT_ONCE:
            performed = await asyncio.sleep(0, 0)
        state = journal.ask()
        effects = machine.next_effects(state, state.as_of)
        if effects and not performer.is_for_somebody_else(effects[0]):
            await performer.perform(effects[0])
            performed += 1
        elif await journal.flush():
            return journal.state


class Segment(NamedTuple, Generic[S, E]):
    """An open segment, as a performer needs it.

    `journal` records its events, and holds those that open it, which may not be stored yet. `flight` holds the effects
    that are running. `on_update` is the watcher that the caller of the run gave. `took_over` says that the stream was
    taken from a live owner.
    """

    journal: Journal[S, E]
    flight: InFlight
    environment: Environment
    on_update: OnUpdate | None
    took_over: bool

    def watcher(self) -> OnUpdate | None:
        """Return what tells live updates to all who watch the stream now; None when nobody does."""
        journal, observer = self.journal, self.environment.observer
        own = self.on_update if observer is None else observer.watcher(self.on_update)
        return self.environment.fanout.watcher(journal.stream, own, lambda: journal.committed.version)

    def forget(self, place: Place | None = None) -> None:
        """Drop the live updates that are kept for followers, of one place or of all."""
        self.environment.fanout.forget(self.journal.stream, place)


Perform: TypeAlias = Callable[[Segment[S, E]], Performer[F]]
"""Makes the performer of a segment."""

Begin: TypeAlias = Callable[[S, bool], Sequence[C | OwnersCommand]]
"""Returns the commands that open a segment, given the state and whether this is a take-over.

No commands mean that no segment is to be opened. The function is called under the lease, and again each time when
another process has appended before the segment was stored.
"""


def open_segment(
    machine: Machine[S, C | OwnersCommand, E, F],
    journal: Journal[S, E],
    begin: Begin[S, C],
    environment: Environment,
    on_update: OnUpdate | None,
    *,
    took_over: bool = False,
) -> Segment[S, E] | None:
    """Record what opens a segment, by the commands of `begin`; None when that leaves nothing to store.

    There are no commands then, or another process has given the same ones, with their key, in front of us. Raises
    `CommandRejected`.
    """
    for command in begin(journal.committed, took_over):
        journal.record(*machine.decide(journal.state, command))
    if not journal.unstored:
        return None
    journal.claim_segment()
    return Segment(journal, InFlight(journal, machine.control.stop_grace), environment, on_update, took_over)


async def drive_segment(
    machine: Machine[S, C | OwnersCommand, E, F], segment: Segment[S, E], perform: Perform[S, E, F]
) -> S:
    """Drive a segment until nothing is left that can be done here; return the state as it is stored.

    Raises `NotOpened` when others appended before the segment was stored, `OwnershipLost` when another process took the
    stream over, and store errors. A caller that is cancelled gets its `CancelledError` after a segment that has been
    stored is closed.
    """
    journal, flight = segment.journal, segment.flight
    performer = perform(segment)
    async with performer.at_work():
        with collector_seldom():
            try:
                if machine.control.standing(journal.committed).is_open:
                    # Of a run that goes on, also what dies before its first effect counts as a crash.
                    await journal.flush()
                return await drive(machine, journal, performer)
            except asyncio.CancelledError:
                await flight.give_up()
                await _leave(machine, journal)
                raise
            except Exception as error:
                cancelled = await flight.give_up()
                if isinstance(error, OwnershipLost):
                    try:
                        await journal.report_late()
                    except StoreError as untold:
                        raise cancelled or error from untold
                if cancelled is not None:
                    raise cancelled from error
                raise
            except BaseException:
                await flight.give_up()
                raise


async def _leave(machine: Machine[S, C | OwnersCommand, E, F], journal: Journal[S, E]) -> None:
    """Close our segment for a caller that was cancelled. A second cancellation does not interrupt this."""
    closing, _ = await outlast(lambda: _close(machine, journal))
    if not closing.cancelled() and (error := closing.exception()) is not None:
        # The caller gets its cancellation and not this error: a later resume goes on from what is stored.
        _log.warning("session %s was not paused for its caller: %s", stream_name(journal.stream), error)


async def _close(machine: Machine[S, C | OwnersCommand, E, F], journal: Journal[S, E]) -> None:
    while journal.owns_the_session:
        journal.record(*machine.decide(journal.peek(), Leave(at=journal.now())))
        if await journal.flush(is_patient=False):
            return
