"""One stream in one process: the commands to it, its lease, and the segments that are driven under that lease.

The process that holds the lease drives the stream. A pause or a stop of a stream without an owner is carried out at
once, by the process that asks for it. Everything that was read before the lease was taken is read again under it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

from steptrail.domain.errors import (
    CommandRejected,
    OwnershipLost,
    SessionBusy,
    SessionNotFound,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    stream_name,
)
from steptrail.domain.kernel.commands import CALLER, OwnersCommand, Pause, Stop, Unpause
from steptrail.domain.kernel.machine import C, E, F, Machine, S
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.few_at_once import few_at_once
from steptrail.runtime.kernel.journal import Journal, NotOpened, fold_stream
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.lists import busy_among, open_among
from steptrail.runtime.kernel.live_updates import OnUpdate, watcher_of
from steptrail.runtime.kernel.segment import Begin, Perform, drive_segment, open_segment
from steptrail.runtime.kernel.stream_commands import StreamCommands
from steptrail.runtime.kernel.stream_lease import LOOKS, hold_lease


class StreamControl(StreamCommands[S, C, E, F]):
    """All that a process can do with one stream. Keeps no connection and no lease between two calls.

    `alone` makes a performer that has none of the code that the stream was started with, and only closes what is open.
    `on_update` is told of the live updates of the runs that are driven here.
    """

    def __init__(
        self,
        machine: Machine[S, C | OwnersCommand, E, F],
        environment: Environment,
        stream: str,
        *,
        alone: Perform[S, E, F],
        on_commit: Callable[[Sequence[Recorded[E]]], None] | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        super().__init__(machine, environment, stream, on_commit=on_commit)
        self._alone, self._on_update = alone, watcher_of(on_update)
        self._left_at: int | None = None
        """The version at which this process left the stream the last time."""

    async def own(
        self,
        begin: Begin[S, C],
        perform: Perform[S, E, F],
        *,
        take_over: bool = False,
        key: str | None = None,
        journal: Journal[S, E] | None = None,
        obeys_pause: bool = False,
    ) -> S:
        """Open a segment with the commands of `begin` and drive it to its end; return the state as it is stored.

        `journal` is one of the stream, if the caller has read it already. A command that was accepted before is gone
        on with. When the one that came with this `key` has been carried out, the state is returned in which it ended.
        Raises `SessionBusy` while another process owns the stream, unless it is to `take_over`, and `CommandRejected`:
        with a `key` before anything is locked, without one when the stream is owned. For `obeys_pause` see `obedient`.
        """
        journal = journal or await self.journal()
        begin = self.obedient(begin, None if obeys_pause else journal.committed)
        while True:
            state = journal.committed
            if key is not None and (version := self._control.version_of_key(state, key)) is not None:
                await self.tidy_up(journal)
                return (await fold_stream(self.machine, self._env.store, self.stream, at=version))[0]
            commands = begin(state, False)
            if not commands:
                await self.tidy_up(journal)
                return state
            if key is not None and not self.machine.decide(state, commands[0]):
                return await self.resume(perform, take_over=take_over)
            ended = await self.own_as_seen(journal, begin, perform, take_over=take_over)
            if ended is not None:
                return ended
            journal = await journal.reloaded()

    async def resume(
        self,
        perform: Perform[S, E, F],
        *,
        take_over: bool = False,
        journal: Journal[S, E] | None = None,
        obeys_pause: bool = False,
    ) -> S:
        """Go on with the open run in a further segment, by its recorded settings; return the state as it is stored.

        The arguments are those of `own`.
        """

        def reopen(state: S, took_over: bool) -> Sequence[C | OwnersCommand]:
            command = self._control.reopen(state, self._env.worker, took_over)
            return () if command is None else (command,)

        return await self.own(reopen, perform, take_over=take_over, journal=journal, obeys_pause=obeys_pause)

    def obedient(self, begin: Begin[S, C], looked: S | None) -> Begin[S, C]:
        """Return `begin`, made to keep a pause that a person asked for after the caller had `looked`.

        Who goes on with a run lifts the pauses that he could know of. One that came after his look was asked for
        with the run before the person's eyes, and holds: a run that is paused stays so, and another one goes on only to
        its next safe point. A `looked` of None keeps every pause: a worker lifts none. What was said to a paused run
        after that is answered.
        """
        known = None if looked is None else self._open_request(looked)
        was_paused = looked is not None and self._control.standing(looked).paused_by_person

        def heeding(state: S, took_over: bool) -> Sequence[C | OwnersCommand]:
            commands, asked, stands = begin(state, took_over), self._open_request(state), self._control.standing(state)
            if commands and stands.paused_by_person and not (was_paused or stands.asked_again):
                return ()
            if not commands or not isinstance(asked, Pause) or asked.by == CALLER or asked == known:
                return commands
            return (*commands, asked)

        return heeding

    async def own_as_seen(
        self,
        journal: Journal[S, E],
        begin: Begin[S, C],
        perform: Perform[S, E, F],
        *,
        looks: int = LOOKS,
        take_over: bool = False,
    ) -> S | None:
        """Do what `own` does, if the stream is still where the journal saw it; None when it has grown since.

        `looks` says how many times to try again to get the lease of a stream that is at rest.
        """
        driven = journal
        try:
            try:
                async with self._lease(journal, looks=looks):
                    driven = await self._reloaded(journal)
                    if driven.committed.version != journal.committed.version:
                        return None
                    return await self._drive(driven, begin, perform)
            except SessionBusy:
                if not take_over:
                    raise
            for command in begin(journal.committed, True)[:1]:
                self.machine.decide(journal.committed, command)  # says no before the owner loses its lease
            async with self._lease(journal, take_over=True):
                driven = await self._reloaded(journal)
                return await self._drive(driven, begin, perform, took_over=True)
        except StoreUnavailable:
            # The trail was closed, or the store went away, when the last event of the run was stored.
            if not driven.owns_the_session or self._control.standing(driven.committed).is_open:
                raise
            return driven.committed

    async def request(self, command: Pause | Stop) -> S:
        """Ask for a pause or a stop, of this stream and of those that it began; return the state as it is stored.

        A stream without an owner is paused, or has ended, when this returns. Raises `CommandRejected` and
        `SessionNotFound`.
        """
        journal = await self.existing()
        if self.machine.decide(journal.committed, command):
            try:
                async with self._lease(journal):
                    return await self._carry_out(journal, command)
            except SessionBusy:
                journal = await self.append(journal, command)
                await self._ask_children(journal.committed, command)
        await self._carry_out_request_of(journal)
        return (await journal.reloaded()).committed

    async def unpause(self, command: Unpause) -> S:
        """Lift the pause of this stream and of those that it began, and drive nothing; return the state after it.

        Raises `CommandRejected` for a stream that is not paused, and `SessionNotFound`.
        """
        journal = await self.append(await self.existing(), command)
        await few_at_once([*self._control.children(journal.committed)], partial(self._unpause_below, command))
        return journal.committed

    async def _unpause_below(self, command: Unpause, child: str) -> None:
        # One that has not begun, one that is not paused, and one that cannot be read.
        with suppress(SessionNotFound, CommandRejected, StoreError):
            await control_of(self._env, child).unpause(Unpause(by=command.by, reason=command.reason))

    async def _reloaded(self, journal: Journal[S, E]) -> Journal[S, E]:
        return await journal.reloaded(actor=self._env.worker)

    def _lease(
        self, journal: Journal[S, E], *, take_over: bool = False, looks: int = LOOKS
    ) -> AbstractAsyncContextManager[None]:
        after = self._carry_out_unseen_request
        return hold_lease(self._env, self.machine, journal, take_over=take_over, looks=looks, after_release=after)

    async def _drive(
        self, journal: Journal[S, E], begin: Begin[S, C], perform: Perform[S, E, F], *, took_over: bool = False
    ) -> S | None:
        """Open a segment and drive it to its end; None when nothing is left to open it for, because of what came first.

        Called only under the lease, and the journal was reloaded there.
        """
        seen = journal.committed.version
        # What another run of this stream left behind, whose owner died or was cancelled first, is not that of the next.
        await self._stop_children(journal.committed)
        while segment := open_segment(self.machine, journal, begin, self._env, self._on_update, took_over=took_over):
            with suppress(NotOpened):
                state = await drive_segment(self.machine, segment, perform)
                self._left_at = state.version
                with suppress(StoreError):  # what does not succeed is done later
                    await self._stop_children(state)
                return state
        self._left_at = journal.committed.version
        return journal.committed if self._left_at == seen else None

    async def _carry_out(self, journal: Journal[S, E], command: Pause | Stop) -> S:
        """Pause or stop a stream that nobody owns, by its recorded settings. Called only under the lease."""

        def begin(state: S, took_over: bool) -> Sequence[C | OwnersCommand]:
            standing = self._control.standing(state)
            # What is at rest can be paused as it stands; a stop has to close what is open, in a segment of its own.
            needs_no_segment = isinstance(command, Pause) and standing.is_at_rest
            reopening = None if needs_no_segment else self._control.reopen(state, self._env.worker, took_over)
            return (command,) if reopening is None else (reopening, command)

        fresh = await self._reloaded(journal)
        ended = await self._drive(fresh, begin, self._alone)
        return fresh.committed if ended is None else ended

    # A pause or a stop that is stored while the owner is letting go may never be seen by it. So two sides look for one:
    # each owner after it has released the lease, and each requester after it has stored its request. The last of the
    # two always finds it.

    async def _carry_out_unseen_request(self) -> None:
        """Carry out a request that came after this process left the stream. Called after the lease was released."""
        # A request that cannot be carried out now is stored, and the next resume obeys it.
        with suppress(StoreError):
            if await self._env.store.version(self.stream) != self._left_at:
                await self._carry_out_request_of(await self.journal())

    async def _carry_out_request_of(self, journal: Journal[S, E]) -> None:
        """Carry out the open request that the journal holds, unless the stream has an owner."""
        if self._open_request(journal.committed) is None:
            return
        with suppress(SessionBusy):
            async with hold_lease(self._env, self.machine, journal, looks=0):
                journal = await journal.reloaded()
                # The owner may have seen the request while it was letting go.
                if (command := self._open_request(journal.committed)) is not None:
                    await self._carry_out(journal, command)

    def _open_request(self, state: S) -> Pause | Stop | None:
        return self._control.asked(state) if self._control.standing(state).is_open else None

    async def _ask_children(self, state: S, command: Pause | Stop) -> None:
        """Ask the streams that this one began to pause or stop as well: one that works begins nothing more then.

        For a worker that ends those that wait go on waiting: there may be thousands, and it has a few seconds.
        """
        children: Sequence[str] = [*self._control.children(state)]
        if isinstance(command, Pause) and command.by == CALLER:
            children = await busy_among(self._env.store, children)
        await few_at_once(children, partial(self._ask_child, command))

    async def _ask_child(self, command: Pause | Stop, child: str) -> None:
        # One that has not begun, and one that has ended. One that cannot be asked now keeps none of the others from it.
        with suppress(SessionNotFound, CommandRejected, StoreError):
            await control_of(self._env, child).request(type(command)(by=command.by, reason=command.reason))

    async def tidy_up(self, journal: Journal[S, E]) -> None:
        """Stop what the run left open, if this process may: what another one owns, or may write, is left to that."""
        with suppress(SessionBusy, StoreReadOnly):
            await self.stop_left_behind(journal)

    async def stop_left_behind(self, journal: Journal[S, E] | None = None) -> Sequence[str]:
        """Stop what a run that has ended left open, because its owner died before it had done so; return these streams.

        What somebody began by hand in such a stream after that end goes on. Under the lease, because a retry of the run
        at the same moment goes on with what is below. Raises `SessionBusy` and `StoreReadOnly`.
        """
        journal = journal or await self.existing()
        if self._control.standing(journal.committed).is_open or not self._control.children(journal.committed):
            return ()
        async with hold_lease(self._env, self.machine, journal, looks=0):
            return await self._stop_children((await journal.reloaded()).committed)

    async def _stop_children(self, state: S) -> Sequence[str]:
        """Stop the streams that this one began and is responsible for, if its run has ended; return them."""
        if self._control.standing(state).is_open:
            return ()
        asked, (_, ended_at) = self._control.asked(state), self._control.began_again_and_ended(state)
        given_up = {stream: at or ended_at for stream, at in self._control.children(state).items()}
        by = asked.by if isinstance(asked, Stop) else "parent"
        return await self.stop_below(given_up, f"session {stream_name(self.stream)} has ended", by=by)

    async def _has_begun_since(self, given_up_at: int | None, stream: str) -> bool:
        """Tell whether the newest run of a stream below began after it was given up at that instant: by hand.

        Never the first one, which began by what is above: the clock of the process there may have been ahead.
        """
        # One that was erased, one of an unknown kind; and what cannot be read now is not stopped either.
        with suppress(SessionNotFound, CommandRejected, StoreError):
            below = control_of(self._env, stream)
            began_at, _ = below.machine.control.began_again_and_ended((await below.journal()).committed)
            return given_up_at is not None and began_at is not None and began_at > given_up_at
        return False

    async def stop_below(self, given_up: Mapping[str, int | None], reason: str, *, by: str = "parent") -> Sequence[str]:
        """Stop streams that this one began and does not need any more, and return those that it had left open.

        What somebody began by hand in one of them since the instant at which it was given up goes on. What does not
        succeed is done at its end.
        """
        # A run may have begun thousands, and nearly all of them have ended.
        still_open = await open_among(self._env.store, [*given_up])
        left = [each for each in still_open if not await self._has_begun_since(given_up[each], each)]
        await few_at_once(left, partial(self._stop_one, Stop(by=by, reason=reason)))
        return left

    async def _stop_one(self, command: Stop, stream: str) -> None:
        with suppress(SessionNotFound, SessionBusy, CommandRejected, OwnershipLost, StoreError):
            below = control_of(self._env, stream)
            try:
                await below.request(command)
            except CommandRejected:
                await below.stop_left_behind()  # it has ended, and its owner may have died before it had done so
