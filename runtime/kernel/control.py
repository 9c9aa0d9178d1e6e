"""One stream in one process: commands to it, its lease, and the segments that are driven under that lease.

A command is an append. Whoever holds the lease brings the stream on; a command to a stream that nobody holds is carried
out at once by the process that brings it. What was looked at before the lease was taken is looked at again under it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from steptrail.domain.errors import (
    CommandRejected,
    ConcurrencyConflict,
    OwnershipLost,
    SessionBusy,
    SessionNotFound,
    StoreError,
)
from steptrail.domain.kernel.commands import Leave, OwnersCommand, Pause, Stop
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import FoldedState, Machine
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.drive import Performer, drive
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ids import new_id
from steptrail.runtime.kernel.journal import Journal, fold_stream
from steptrail.runtime.kernel.ports import Lease
from steptrail.runtime.kernel.running_effects import InFlight

__all__ = ["LOOKS", "Begin", "Perform", "Segment", "StreamControl"]

S = TypeVar("S", bound=FoldedState)
C = TypeVar("C")
E = TypeVar("E", bound=Event)
F = TypeVar("F")

LOOKS, _LOOK_SECONDS = 20, 0.05
"""How often, and how long apart, to look again whether an owner that has nothing more to do has let go."""

_log = logging.getLogger("steptrail.runs")


class Segment(NamedTuple, Generic[S, E]):
    """What a performer works with: where it records, its effects in flight, and whether it took over a live owner's."""

    journal: Journal[S, E]
    flight: InFlight
    took_over: bool


Perform: TypeAlias = Callable[[Segment[S, E]], Performer[F]]
"""Makes the performer of a segment."""

Begin: TypeAlias = Callable[[S, bool], Sequence[C | OwnersCommand]]
"""Returns the commands that open a segment, given the state and whether this is a take-over; none to leave it alone.

It is asked under the lease, and once more whenever somebody else has appended before the segment was stored.
"""


class StreamControl(Generic[S, C, E, F]):
    """Commands to one stream. Holds nothing open between two calls.

    `alone` performs what needs none of the code that the stream was started with: it closes what is open. `below` gives
    the control of another stream, for those that this one began.
    """

    def __init__(
        self,
        machine: Machine[S, C | OwnersCommand, E, F],
        environment: Environment,
        stream: str,
        *,
        alone: Perform[S, E, F],
        below: "Callable[[str], StreamControl[Any, Any, Any, Any]]",
        on_commit: Callable[[Sequence[Recorded[E]]], None] | None = None,
    ) -> None:
        self._machine, self._env, self._stream = machine, environment, stream
        self._alone, self._below, self._on_commit = alone, below, on_commit
        self._id, self._control = stream.removeprefix(machine.stream_prefix), machine.control
        self._left_at: int | None = None

    async def journal(self) -> Journal[S, E]:
        """Return a journal of the stream as it is stored now, which may be none at all."""
        return await Journal[S, E].open(
            self._machine,
            self._env.store,
            self._stream,
            clock=self._env.clock,
            actor=self._env.worker,
            reach=self._env.reach,
            on_commit=self._on_commit,
            observer=self._env.observer,
        )

    async def existing(self) -> Journal[S, E]:
        """Return a journal of the stream, or raise `SessionNotFound`."""
        journal = await self.journal()
        if self._control.standing(journal.committed).state is StandingState.ABSENT:
            raise SessionNotFound(self._id)
        return journal

    async def is_news_to(self, journal: Journal[S, E]) -> bool:
        """Tell whether somebody was here since the journal looked. Asked under the lease, where it stays true."""
        return await self._env.store.version(self._stream) != journal.committed.version

    async def tell(self, command: C) -> S:
        """Store a command that needs no owner. Raises `CommandRejected` and `SessionNotFound`."""
        return (await self.append(await self.existing(), command)).committed

    async def append(self, journal: Journal[S, E], command: C | OwnersCommand) -> Journal[S, E]:
        """Store a command that needs no owner, and return a journal that holds it. Raises `CommandRejected`."""
        while True:
            # Anew after a lost append too: a journal would keep what was decided as a fact, beside the new decision.
            asking = await journal.reloaded(actor=str(getattr(command, "by", "user")))
            asking.record(*self._machine.decide(asking.committed, command))
            if await asking.flush():
                return asking

    async def own(
        self, begin: Begin[S, C], perform: Perform[S, E, F], *, take_over: bool = False, key: str | None = None
    ) -> S:
        """Open a segment with what `begin` asks for and drive it to where it ends; return the state as it is stored.

        What was accepted before is gone on with; where it came with this `key` and has been carried out, the state that
        it ended in is returned. Raises `CommandRejected` before anything is locked, and `SessionBusy` while another
        process owns the stream, unless it is to `take_over`.
        """
        journal = await self.journal()
        while True:
            state = journal.committed
            if key is not None and (version := self._control.version_of_key(state, key)) is not None:
                return (await fold_stream(self._machine, self._env.store, self._stream, at=version))[0]
            commands = begin(state, False)
            if not commands:
                return state
            if not self._machine.decide(state, commands[0]):
                return await self.resume(perform, take_over=take_over)
            ended = await self.own_as_seen(journal, begin, perform, take_over=take_over)
            if ended is not None:
                return ended
            journal = await journal.reloaded()

    async def resume(self, perform: Perform[S, E, F], *, take_over: bool = False) -> S:
        """Go on with the open run in a further segment, by what is recorded; without one the state is returned."""

        def reopen(state: S, took_over: bool) -> Sequence[C | OwnersCommand]:
            command = self._control.reopen(state, self._env.worker, took_over)
            return () if command is None else (command,)

        return await self.own(reopen, perform, take_over=take_over)

    async def own_as_seen(
        self,
        journal: Journal[S, E],
        begin: Begin[S, C],
        perform: Perform[S, E, F],
        *,
        looks: int = LOOKS,
        take_over: bool = False,
    ) -> S | None:
        """Do what `own` does, where the stream stands as the journal saw it; None when somebody was here since.

        `looks` says how often to look whether an owner that has come to rest lets go.
        """
        try:
            async with self._lease(journal, looks=looks):
                if await self.is_news_to(journal):
                    return None
                return await self._drive(journal, begin, perform)
        except SessionBusy:
            if not take_over:
                raise
        async with self._lease(journal, take_over=True):
            return await self._drive(journal, begin, perform, took_over=True)

    async def request(self, command: Pause | Stop) -> S:
        """Ask for a pause or a stop; where nobody owns the stream, it is paused or has ended when this returns.

        The streams that it began are asked as well.
        """
        journal = await self.existing()
        if self._machine.decide(journal.committed, command):
            try:
                async with self._lease(journal):
                    return await self._close(journal, command)
            except SessionBusy:
                journal = await self.append(journal, command)
                if isinstance(command, Pause):
                    await self._pause_children(journal.committed, command)
        await self._carry_out_late(journal)
        return (await journal.reloaded()).committed

    async def fork(self, into: str, command: Callable[[str], C], *, by: str, at: int | None = None) -> S:
        """Open the stream `into`, which goes on from this one's past, the first `at` events or all.

        `command` is given the digest of the last commit of that past. Raises `SessionNotFound`, and `CommandRejected`
        when something is in flight there, or when `into` exists.
        """
        store, prefix = self._env.store, self._machine.stream_prefix
        state, _ = await fold_stream(self._machine, store, self._stream, at=at, is_sound=True)
        if self._control.standing(state).state is StandingState.ABSENT:
            raise SessionNotFound(self._id)
        if at is not None and at != state.version:
            raise CommandRejected("fork", self._id, f"it has {state.version} events and not {at}")
        digest = await store.digest(self._stream, state.version)
        events = self._machine.decide(state, command(digest.hex()))
        now = max(self._env.clock.utc(), state.as_of)
        commit = Commit(CommitHead(commit_id=new_id("c"), actor=by), tuple((now, event) for event in events))
        try:
            await store.append(into, EMPTY_STREAM, commit)
        except ConcurrencyConflict as error:
            why = f"the session {into.removeprefix(prefix)!r} exists already"
            raise CommandRejected("fork", self._id, why) from error
        forked, _ = await fold_stream(self._machine, store, into)
        return forked

    @asynccontextmanager
    async def _lease(
        self, journal: Journal[S, E], *, take_over: bool = False, looks: int = LOOKS, to_be_last: bool = True
    ) -> AsyncGenerator[None]:
        """Hold the lease. Raises `SessionBusy` when another has it, after `looks` at one that has come to rest.

        Whoever is `to_be_last` carries out what was asked of it and came too late for it to see.
        """
        self._env.reach("before-acquire")
        lease = await self._acquire(journal, take_over=take_over, looks=looks)
        self._env.reach("after-acquire")
        try:
            yield
        finally:
            self._env.reach("before-release")
            await lease.release()
            self._env.reach("after-release")
            if to_be_last:
                # What cannot be carried out now is stored, and the next resume obeys it.
                with suppress(StoreError):
                    if await self._env.store.version(self._stream) != self._left_at:
                        await self._carry_out_late(await self.journal())

    async def _acquire(self, journal: Journal[S, E], *, take_over: bool, looks: int) -> Lease:
        """Take the lease, and wait a moment for an owner that is about to begin, or has ended and is letting go."""
        store, stream = self._env.store, self._stream
        rested_at: int | None = None
        while True:
            try:
                return await store.acquire(stream, owner="a steptrail runner", take_over=take_over)
            except SessionBusy:
                if rested_at is None:
                    state = (await journal.reloaded()).committed
                    if not self._control.standing(state).is_at_rest:
                        raise
                    rested_at = state.version
                if looks == 0 or await store.version(stream) != rested_at:
                    raise
            looks -= 1
            await asyncio.sleep(_LOOK_SECONDS)

    async def _drive(
        self, journal: Journal[S, E], begin: Begin[S, C], perform: Perform[S, E, F], *, took_over: bool = False
    ) -> S:
        """Open a segment with what `begin` asks for, and drive it to where it ends. Only under the lease."""
        journal = await journal.reloaded(actor=self._env.worker)
        while True:
            commands = begin(journal.committed, took_over)
            if not commands:
                return self._left(journal.committed)
            for command in commands:
                journal.record(*self._machine.decide(journal.state, command))
            journal.claim_segment()
            try:
                stored = await journal.flush()
            except asyncio.CancelledError:
                if journal.owns_the_session:
                    await self._leave(journal)
                raise
            if stored:
                break
        flight = InFlight(journal, self._control.stop_grace)
        performer = perform(Segment(journal, flight, took_over))
        with performer.at_work():
            state = await self._driven(journal, flight, performer)
        await self._stop_children(self._left(state))
        return state

    async def _driven(self, journal: Journal[S, E], flight: InFlight, performer: Performer[F]) -> S:
        """Go on until nothing is left that can be done here; return the stored state.

        Raises `OwnershipLost` when another process took the stream over, and store errors. A cancelled caller gets its
        `CancelledError` after the segment has been closed.
        """
        try:
            return await drive(self._machine, journal, performer)
        except asyncio.CancelledError:
            await flight.give_up()
            await self._leave(journal)
            raise
        except OwnershipLost as lost:
            await flight.give_up()
            try:
                await journal.report_late()
            except StoreError as error:
                raise lost from error
            raise
        except BaseException:
            await flight.give_up()
            raise

    async def _leave(self, journal: Journal[S, E]) -> None:
        """Close the segment of a caller who was cancelled. Another cancellation does not keep it from that."""
        closing = asyncio.ensure_future(self._closed(journal))
        await wait_through(closing)
        if not closing.cancelled() and (error := closing.exception()) is not None:
            # The caller is to hear of its cancellation; what is stored can be gone on with.
            _log.warning("session %s was not paused for its caller: %s", self._id, error)

    async def _closed(self, journal: Journal[S, E]) -> None:
        while True:
            journal.record(*self._machine.decide(journal.peek(), Leave(at=journal.now())))
            if await journal.flush():
                return

    def _left(self, state: S) -> S:
        """Note that this is how the stream is left, and return it."""
        self._left_at = state.version
        return state

    async def _close(self, journal: Journal[S, E], command: Pause | Stop) -> S:
        """Carry out a command on a stream that nobody owns, with what is recorded of it."""

        def begin(state: S, took_over: bool) -> Sequence[C | OwnersCommand]:
            standing = self._control.standing(state)
            # What is at rest can be paused as it stands; a stop has to close what is open, in a segment of its own.
            needs_none = isinstance(command, Pause) and standing.is_at_rest
            reopening = None if needs_none else self._control.reopen(state, self._env.worker, took_over)
            return (command,) if reopening is None else (reopening, command)

        return await self._drive(journal, begin, self._alone)

    async def _carry_out_late(self, journal: Journal[S, E]) -> None:
        """Do what was asked for of an owner that did not come to see it any more.

        Whoever lets go of a stream looks here, and so does whoever asked something of its owner: one of them is last.
        """
        if self._asked(journal.committed) is None:
            return
        with suppress(SessionBusy):
            async with self._lease(journal, looks=0, to_be_last=False):
                journal = await journal.reloaded()
                # Its owner may have come to see it while it was letting go.
                if (command := self._asked(journal.committed)) is not None:
                    await self._close(journal, command)

    def _asked(self, state: S) -> Pause | Stop | None:
        return self._control.asked(state) if self._control.standing(state).is_open else None

    async def _pause_children(self, state: S, command: Pause) -> None:
        """Ask the streams that it began to pause as well."""
        for child in self._control.children(state):
            with suppress(SessionNotFound, CommandRejected):  # one that has not begun, and one that has ended
                await self._below(child).request(Pause(by=command.by, reason=command.reason))

    async def _stop_children(self, state: S) -> None:
        """Leave no stream behind that was begun by a run which has ended."""
        if self._control.standing(state).is_open:
            return
        asked = self._control.asked(state)
        stop = Stop(by=asked.by if isinstance(asked, Stop) else "parent", reason=f"session {self._id} has ended")
        for child in self._control.children(state):
            with suppress(SessionNotFound, CommandRejected, StoreError):
                await self._below(child).request(stop)
