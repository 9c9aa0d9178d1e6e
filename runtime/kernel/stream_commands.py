"""The commands to a stream that need no owner: each is one append, whether or not some process drives the stream."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic
from weakref import WeakValueDictionary

from msgspec.structs import replace

from steptrail.domain.errors import CommandRejected, ConcurrencyConflict, SessionErased, stream_name
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.commands import OwnersCommand
from steptrail.domain.kernel.given import a_plain_function
from steptrail.domain.kernel.machine import C, E, F, Machine, S
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ids import new_id
from steptrail.runtime.kernel.journal import Journal, append, fold_stream
from steptrail.runtime.kernel.kinds import not_found
from steptrail.runtime.kernel.ports import EventStore


class _Turn:
    """Lets the commands of one event loop to one stream be stored one after the other, each on what came before it.

    At the same moment all but one of them would be lost, and would read the others and try again.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.newest: Journal[Any, Any] | None = None


_turns: WeakValueDictionary[tuple[EventStore, asyncio.AbstractEventLoop, str], _Turn] = WeakValueDictionary()


class StreamCommands(Generic[S, C, E, F]):
    """Reads one stream and appends to it. Keeps no connection and no lease between two calls.

    `on_commit` is told of every commit that this process makes to the stream.
    """

    def __init__(
        self,
        machine: Machine[S, C | OwnersCommand, E, F],
        environment: Environment,
        stream: str,
        *,
        on_commit: Callable[[Sequence[Recorded[E]]], None] | None = None,
    ) -> None:
        if on_commit is not None:
            a_plain_function(on_commit, "`on_commit`", "the records of a commit")
        self.machine, self.stream = machine, stream
        self._env, self._on_commit = environment, on_commit
        self._control = machine.control

    async def journal(self) -> Journal[S, E]:
        """Return a journal of the stream as it is stored now. The stream need not exist."""
        return await Journal[S, E].open(self.machine, self._env, self.stream, on_commit=self._on_commit)

    async def existing(self) -> Journal[S, E]:
        """Return a journal of the stream, or raise `SessionNotFound`."""
        journal = await self.journal()
        if self._control.standing(journal.committed).state is StandingState.ABSENT:
            raise await not_found(self._env.store, self.stream)
        return journal

    async def has_grown_since(self, journal: Journal[S, E]) -> bool:
        """Tell whether the store holds more of the stream than the journal. Under the lease the answer stays true."""
        return await self._env.store.version(self.stream) != journal.committed.version

    async def tell(self, command: C) -> S:
        """Store a command and return the state after it. Raises `CommandRejected` and `SessionNotFound`."""
        return (await self.append(await self.existing(), command)).committed

    async def append(self, journal: Journal[S, E], command: C | OwnersCommand) -> Journal[S, E]:
        """Store a command, and return a journal that holds its events. Raises `CommandRejected`."""
        key = (self._env.store, asyncio.get_running_loop(), self.stream)
        turn = _turns.setdefault(key, _Turn())
        async with turn.lock:
            while True:
                # Each try has a journal of its own: after a lost append the old one keeps the facts that were decided,
                # and they would be stored beside those of the new decision.
                actor, cause = str(getattr(command, "by", "user")), getattr(command, "cause", None)
                journal_of_try = turn.newest = await journal.reloaded(actor=actor, seen=turn.newest)
                journal_of_try.causation = cause
                journal_of_try.record(*self.machine.decide(journal_of_try.committed, command))
                if await journal_of_try.flush():
                    return journal_of_try

    async def append_until(self, command_for: Callable[[S], C | None]) -> S:
        """Store the command that is right for the state, until none is; return the state after it. Runs nothing."""
        journal = await self.journal()
        while (command := command_for(journal.committed)) is not None:
            try:
                return (await self.append(journal, command)).committed
            except CommandRejected:
                # Another process has probably begun or ended an execution since the read. If the stream has not grown,
                # none has.
                if not await self.has_grown_since(journal):
                    raise
            journal = await journal.reloaded()
        return journal.committed

    async def fork(self, into: str, command: Callable[[str], C], *, by: str, at: int | None = None) -> None:
        """Open the stream `into`, which goes on from the first `at` events of this one, or from all of them.

        `command` makes the command that opens it, from the digest of the last commit of that past. Raises
        `SessionNotFound`, and `CommandRejected` when something is in flight at that version, or when `into` exists;
        `SessionErased` when that was erased, or somebody erases this one meanwhile: then nothing is opened.
        """
        store = self._env.store
        state, _ = await fold_stream(self.machine, store, self.stream, at=at, is_sound=True)
        if self._control.standing(state).state is StandingState.ABSENT:
            raise await not_found(store, self.stream)
        if at is not None and at != state.version:
            raise CommandRejected("fork", stream_name(self.stream), f"it has {state.version} events and not {at}")
        digest = await store.digest(self.stream, state.version)
        events = self.machine.decide(state, command(digest.hex()))
        now = max(self._env.clock.utc(), state.as_of)
        forked = self.machine.evolve_all(state, [Recorded(n, now, event) for n, event in enumerate(events, 1)])
        # That state is the one of this stream, and the row is that of the stream which is opened.
        summary = replace(self._control.summary(forked), session_id=id_of(into))
        head = CommitHead(commit_id=new_id("c"), actor=by)
        commit = Commit(head, tuple((now, event) for event in events), summary)
        try:
            await append(store, into, EMPTY_STREAM, commit)
        except ConcurrencyConflict as error:
            if (gone := await store.erasure(into)) is not None:
                raise SessionErased(into, gone.by, gone.at, gone.reason) from error
            why = f"the session {stream_name(into)!r} exists already"
            raise CommandRejected("fork", stream_name(self.stream), why) from error
