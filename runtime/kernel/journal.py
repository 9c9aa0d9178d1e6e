"""The journal of one stream in this process: the stored events, and the overlay of events that are not stored yet.

A new event goes into the overlay and changes the state at once. `flush` stores the overlay as one commit. If another
process has appended first, the overlay is dropped, the new events are folded, and the facts of the overlay are added
again after them. Intents are not added again: the machine is asked anew.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count, repeat, takewhile
from typing import Any, Generic

from steptrail.domain.copies import own
from steptrail.domain.errors import (
    PASSING,
    AppendOutcomeUnknown,
    ConcurrencyConflict,
    ConfigurationError,
    OwnershipLost,
    SessionErased,
    StoreError,
    StoreReadOnly,
    StoreSetBack,
    shown,
    stream_name,
)
from steptrail.domain.files import fields_with_files
from steptrail.domain.kernel.event import begins_anew, is_fact, is_world_fact
from steptrail.domain.kernel.machine import CallInFlight, E, Machine, S
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded, StreamHead, base_of
from steptrail.domain.kernel.standing import Standing, StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.cancellation import outlast
from steptrail.runtime.kernel.clock import SegmentClock
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.coming_files import ComingFiles
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.history import pages, typed_records
from steptrail.runtime.kernel.ids import new_id
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.log_reader import Watch, watch_stream
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.snapshots import Snapshots

_PASSING = (*PASSING, StoreReadOnly, AppendOutcomeUnknown)
"""With what a store does not take a commit that it may take later. It took another one of this run before."""
_PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 30.0, 0.2, 5.0
"""How long what has happened is offered to such a store again and again, and with which pauses: each twice as long."""

_log, _store_log = logging.getLogger("steptrail.runs"), logging.getLogger("steptrail.store")


async def fold_stream(
    machine: Machine[S, Any, E, Any],
    store: EventStore,
    stream: str,
    *,
    at: int | None = None,
    is_sound: bool = False,
    about: int | None = None,
    snapshots: Snapshots[S] | None = None,
) -> tuple[S, StreamHead]:
    """Fold a stream as of version `at`, or as it is now; return the state and the head of the stream there.

    A stream that does not exist has the machine's initial state. The fold begins at a snapshot if there is one, and
    holds one page of records at a time. With `is_sound`, the digests of all records are verified, and `CorruptRecord`
    is raised for changed ones. A state that leads to an effect must be folded so. Who knows about how many events there
    are says so in `about`: of a short stream there is no snapshot to look for. Who goes on with the stream keeps its
    `snapshots`.
    """
    snapshots = snapshots or Snapshots(machine, store, stream)
    cached = await snapshots.newest(at=at, about=about)
    state, head = cached or (machine.initial(stream.removeprefix(machine.stream_prefix)), EMPTY_STREAM)
    async for records, end in pages(machine, store, stream, after=head if is_sound else head.version, at=at):
        with collector_off():
            state, head = machine.evolve_all(state, records), end
        snapshots.has_folded(len(records))
    return state, head


class NotOpened(Exception):
    """Others appended before what was to open our segment was stored, so it was dropped with all that followed it."""


class Journal(Generic[S, E]):
    """Appends the events of one stream for one owner. It is not shared between tasks. It works for any kind of machine.

    `on_commit` is called with every commit of this process, once it is durable. So is the observer of the environment,
    which watches all streams of the process. Exceptions of both are logged and do not disturb the run. What the
    environment has for `waking` is told of each commit that moves the stream.
    """

    def __init__(
        self,
        machine: Machine[S, Any, E, Any],
        environment: Environment,
        stream: str,
        state: S,
        head: StreamHead,
        *,
        actor: str,
        snapshots: Snapshots[S],
        on_commit: Callable[[Sequence[Recorded[E]]], None] | None,
    ) -> None:
        self._machine, self._env, self._stream = machine, environment, stream
        self._store, self._reach = environment.store, environment.reach
        clock = SegmentClock(environment.clock, not_before=state.as_of)
        self.now, self.behind = clock.now, clock.behind
        """The present instant by the clock of this segment, and how far that is behind the time of day."""
        self._actor, self._on_commit = actor, on_commit
        self.causation: str | None = None
        """The id of what leads to the commits, such as a request; None for what has none."""
        self._snapshots = snapshots
        self._committed, self._head = state, head
        self._stands = machine.control.standing(state)
        self._overlay: list[Recorded[E]] = []
        self._harmless = 0
        self.asked = state
        """The state for which the machine was asked last. Do not keep it: the next `record` may change it in place."""
        self._state, self._is_shown = state, True
        self._segment: int | None = None
        self._opened_by: str | None = None
        self._lost: OwnershipLost | None = None
        self._is_in_doubt = False
        self._files = ComingFiles()
        self._outcomes: list[tuple[E, CallInFlight]] = []

    @classmethod
    async def open(
        cls,
        machine: Machine[S, Any, E, Any],
        environment: Environment,
        stream: str,
        *,
        on_commit: Callable[[Sequence[Recorded[E]]], None] | None = None,
    ) -> "Journal[S, E]":
        """Fold the stream from the store and return its journal."""
        snapshots = Snapshots(machine, environment.store, stream)
        state, head = await fold_stream(machine, environment.store, stream, is_sound=True, snapshots=snapshots)
        actor = environment.worker
        return cls(machine, environment, stream, state, head, actor=actor, snapshots=snapshots, on_commit=on_commit)

    async def reloaded(self, *, actor: str | None = None, seen: "Journal[S, E] | None" = None) -> "Journal[S, E]":
        """Return a journal of the stream as it is stored now, with an empty overlay. Only new events are folded.

        `seen` is another journal of the stream: what it has folded is not folded again.
        """
        known = self if seen is None or seen.committed.version < self._committed.version else seen
        state, head, _ = await known._with_news()
        known._snapshots.has_folded(state.version - known._committed.version)
        return Journal(
            self._machine,
            self._env,
            self._stream,
            state,
            head,
            actor=actor or self._actor,
            snapshots=known._snapshots,
            on_commit=self._on_commit,
        )

    async def newest(self) -> S:
        """Return the state as it is stored by now. Only new events are folded, and the journal stays as it is."""
        return (await self._with_news())[0]

    async def _with_news(self) -> tuple[S, StreamHead, bool]:
        """Return the stored state, its head, and whether another owner has opened a segment since our last read."""
        state, head, is_lost = self._committed, self._head, False
        async for records, end_of_page in pages(self._machine, self._store, self._stream, after=head):
            with collector_off():
                state, head = self._machine.evolve_all(state, records) if records else state, end_of_page
            is_lost = is_lost or self._is_lost_by(records)
        return state, head, is_lost

    async def _go_on(self) -> bool:
        """Take what others have appended for what is stored, and return whether one of them is a new owner.

        Raises `StoreSetBack` when there is nothing: the next try would meet the same conflict, and so would all others.
        """
        state, head, is_lost = await self._with_news()
        if head == self._head:
            raise StoreSetBack(f"session {shown(stream_name(self._stream))}", head.version)
        self._is_at(state, head, self._machine.control.standing(state))
        return is_lost

    def _is_lost_by(self, records: Sequence[Recorded[E]]) -> bool:
        """Tell whether these records open a segment with another commit than the one that opened ours."""
        opening = [record.head for record in records if self._machine.opens_segment(record.event)]
        return self._opened_by is not None and any(
            head is None or head.commit_id != self._opened_by for head in opening
        )

    @property
    def stream(self) -> str:
        """The id of the stream."""
        return self._stream

    def watch(self, on_growth: Callable[[int | None], None], on_failure: Callable[[Exception | None], None]) -> Watch:
        """Begin to be told when the stream grows. Ask `has_news` after this: what came before is not told."""
        return watch_stream(self._store, self._stream, on_growth, on_failure)

    @property
    def state(self) -> S:
        """The state with the overlay, as of now."""
        self._is_shown = True
        return self.peek()

    def peek(self) -> S:
        """Return the state with the overlay, as of now. Do not keep it: the next `record` may change it in place.

        It is for the runtime's own code. Hooks, criteria and listeners may keep the state that they get, so they get
        `state`.
        """
        return self._state.at(self.now())

    @property
    def committed(self) -> S:
        """The state as it is stored."""
        return self._committed

    def claim_segment(self) -> None:
        """Claim the segment that the overlay opens. It is ours once the overlay is stored.

        From then on, a segment that another commit opened means that we have lost the session. Commits are compared,
        and not the numbers of segments, because two processes may both believe that they have opened segment 2.
        """
        self._segment = self._machine.segment(self._state)

    @property
    def is_opening(self) -> bool:
        """Whether the segment is claimed, and not stored yet."""
        return self._segment is not None and self._opened_by is None

    @property
    def owns_the_session(self) -> bool:
        """Whether the claimed segment is stored, and no later segment of another owner is known here.

        After a cancellation it also has to be known whether a commit was stored: the next one would meet that as one of
        others, and what happened would be told a second time.
        """
        return self._opened_by is not None and self._lost is None and not self._is_in_doubt

    def ask(self) -> S:
        """Return the state with the overlay for the machine to be asked. `conclude` records as of this instant."""
        self.asked = self._state.at(self.now())
        return self.asked

    def conclude(self, *events: E) -> None:
        """Add events that follow from the state, all as of the instant at which the machine was asked."""
        self._record(self._in_order(self.asked.as_of), events)

    def record(self, *events: E) -> None:
        """Add events that have happened, as of now."""
        self._record(self.now(), events)

    def _in_order(self, at: int) -> int:
        """Return an instant of ours as it is recorded: not before the newest event, unless that is ahead of our clock.

        A command of another process may be: its instant is no time of ours, and would put off what waits or runs here.
        """
        newest = self._state.as_of
        return at if newest <= at else max(at, min(newest, self.now()))

    def _record(self, now: int, events: Sequence[E]) -> None:
        # Most events are of a class that can name no file, which takes no call of Python to see.
        if any(map(fields_with_files, map(type, events))):
            events = tuple(map(self._files.taken_from, events))
        records = list(map(Recorded, count(self._state.version + 1), repeat(now), events))
        # The committed state must be kept, in case that the overlay is dropped, and so must a state that others have
        # seen. Any other state may be changed in place, which is quicker.
        evolve = self._machine.evolve_all if self._is_shown or not self._overlay else self._machine.extend
        self._overlay.extend(records)
        self._state, self._is_shown = evolve(self._state, records), False

    def record_outcome(self, call: CallInFlight, event: E) -> None:
        """Add the event of the end of a call. After a take-over it can still be reported as the end of that call."""
        self.record(event)
        self._outcomes.append((self._overlay[-1].event, call))

    async def flush(self, *, is_patient: bool = True) -> bool:
        """Store the overlay as one commit. Returns False if another process appended first: ask the machine anew then.

        Raises `NotOpened` if the overlay was to open our segment then, `OwnershipLost` if the other process is a new
        owner, and store errors: half a minute later if it `is_patient` and the overlay holds what the outside world has
        done, because nobody else knows of that. A cancellation waits for the commit in flight.
        """
        if self._lost is not None:
            raise self._lost
        if not self._overlay:
            return True
        by, cause = self._actor, self.causation
        head = CommitHead(commit_id=new_id("c"), actor=by, causation=cause, segment=self._segment or 0)
        events = tuple([(record.at, record.event) for record in self._overlay])
        stands = self._machine.control.standing(self._state)
        row = self._row_if_moved(self._state, stands)
        commit = Commit(head, events, row, self._files.named_by(events) if self._files else {})
        self._reach("before-append")
        cancelled: asyncio.CancelledError | None = None
        try:
            try:
                end = await (self._append_in_the_end(commit) if is_patient else self._append(commit))
            except asyncio.CancelledError as error:
                # The store knows by the commit id whether it was stored. A further cancellation does not stop the
                # question.
                self._is_in_doubt = True
                asking, again = await outlast(lambda: self._append(commit))
                cancelled = again or error
                end = asking.result()
        except ConcurrencyConflict:
            was_opening = self.is_opening
            try:
                await self.refresh()
            finally:
                if cancelled is not None:
                    raise cancelled
            if was_opening:
                raise NotOpened from None
            return False
        except StoreError as error:
            if cancelled is not None:
                raise cancelled from error
            raise
        if self._segment is not None and self._opened_by is None:
            self._opened_by = head.commit_id
        before, stored = self._committed, self._overlay
        self._overlay, self._harmless = [], 0
        self._outcomes.clear()
        self._files.clear()
        stood = self._stands
        self._is_at(self._state, end, stands)
        self._announce(stored, before, row, stood)
        if cancelled is not None:
            raise cancelled
        if self._snapshots.is_due(self._head.version, has_ended=stands.state is StandingState.DONE):
            await self._snapshots.keep(self._committed, self._head)
        return True

    def _announce(self, stored: Sequence[Recorded[E]], before: S, row: RunSummary | None, stood: Standing) -> None:
        """Tell of a commit that is stored. `before` and `stood` are the state and the standing before it."""
        self._reach("after-append")
        if row is not None and self._env.waking is not None:
            self._env.waking.stored(row, stood)
        if self._on_commit is not None:
            _tell(self._on_commit, own(tuple(stored)))
        observer = self._env.observer
        if observer is not None and observer.is_watching:
            _tell(partial(observer.committed, self._stream, before), stored)

    def _is_at(self, state: S, head: StreamHead, stands: Standing) -> None:
        """Take this for what is stored."""
        self._committed, self._head, self._stands, self._is_in_doubt = state, head, stands, False

    def _row_if_moved(self, after: S, stands: Standing) -> RunSummary | None:
        """Return the row for the index if the stream stands elsewhere after a commit than before it; else None."""
        return self._machine.control.summary(after) if stands != self._stands else None

    def _append(self, commit: Commit) -> Coroutine[Any, Any, StreamHead]:
        return append(self._store, self._stream, self._head, commit)

    async def _append_in_the_end(self, commit: Commit) -> StreamHead:
        """Append a commit, and offer what has happened again and again to a store that cannot take it now."""
        try:
            return await self._append(commit)
        except _PASSING as error:
            if not (self.owns_the_session and any(is_world_fact(event) for _, event in commit.events)):
                raise
            _log.warning("session %s waits for its store with what has happened: %s", stream_name(self._stream), error)
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        ends = loop.time() + _PATIENCE_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                return await self._append(commit)
            except _PASSING:
                if loop.time() >= ends:
                    raise
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Fold the events that others have appended, and add our facts after them again. Raises `OwnershipLost`."""
        machine = self._machine
        is_lost = await self._go_on()
        before = takewhile(lambda record: not begins_anew(record.event), self._overlay)
        # What was to follow our opening has not met the outside world.
        facts = [] if self.is_opening else [record for record in before if is_fact(record.event)]
        self._overlay, self._harmless = [], 0
        if is_lost:
            # The state stays ours until `report_late`: what is in flight ends in it, and is over in the new owner's.
            newest = machine.segment(self._committed)
            self._lost = OwnershipLost(stream_name(self._stream), self._segment or 0, newest)
            try:
                await self._settle_late(facts)
            except StoreError as error:
                raise self._lost from error
            raise self._lost
        self._state = self._committed
        if self.is_opening:
            self._segment = None
        for fact in facts:
            at, restated = self._in_order(fact.at), machine.restated(self._state, fact.event)
            record = Recorded(self._state.version + 1, at, restated)
            self._overlay.append(record)
            self._state = machine.evolve_all(self._state, [record])

    async def fold_news(self) -> None:
        """Fold the events of others while an effect is in flight. A loss of the session is noticed after the effect."""
        if self._overlay:
            return
        stored = await self._store.read(self._stream, after=self._head)
        records = typed_records(self._machine, stored.records)
        if not self._is_lost_by(records):
            self._state = self._machine.evolve_all(self._committed, records)
            self._is_at(self._state, stored.head, self._machine.control.standing(self._state))

    @property
    def unstored(self) -> int:
        """The number of events that are not stored yet."""
        return len(self._overlay)

    @property
    def comes_before_users_code(self) -> bool:
        """Whether the overlay is to be stored before code of the user runs.

        That is so for what opens the segment, and for what the outside world knows of.
        """
        if self.is_opening or any(is_world_fact(record.event) for record in self._overlay[self._harmless :]):
            return True
        self._harmless = len(self._overlay)  # what many hooks left behind is not looked at again before each of them
        return False

    async def has_news(self) -> bool:
        """Tell whether another process has appended. This is quick."""
        return await self._store.version(self._stream) != self._head.version

    async def _settle_late(self, facts: Sequence[Recorded[E]]) -> None:
        """Append late reports of the ends of our tool calls after the loss of the session. Other events are dropped."""
        machine, segment = self._machine, self._segment or 1
        for fact in facts:
            call = next((call for event, call in self._outcomes if event is fact.event), None)
            late = machine.settle_late(fact.event, call, segment) if call is not None else None
            if late is None:
                continue
            head = CommitHead(commit_id=new_id("c"), actor=self._actor, segment=segment)
            at = self.now()
            self._reach("before-append")
            while True:
                before, stored = self._committed, [Recorded(self._committed.version + 1, at, late)]
                after = machine.evolve_all(before, stored)
                stands = machine.control.standing(after)
                row = self._row_if_moved(after, stands)
                try:
                    end = await self._append(Commit(head, ((at, late),), row, self._files.named_by([(at, late)])))
                except ConcurrencyConflict:
                    await self._go_on()
                else:
                    stood = self._stands
                    self._is_at(after, end, stands)
                    self._announce(stored, before, row, stood)
                    break

    async def report_late(self) -> None:
        """Append late reports of the calls that were in flight when the session was lost, and have ended since."""
        facts, self._overlay, self._state = self._overlay, [], self._committed
        await self._settle_late(facts)


async def append(store: EventStore, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
    """Do what `EventStore.append` does, and ask again where it may have stored the commit or not.

    Raises `SessionErased` where what it opens a fork of, or begins a stream below, was erased meanwhile, and
    `ConfigurationError` for a store that somebody wrote and that returns no head.
    """
    try:
        try:
            end = await store.append(stream, expected, commit)
        except AppendOutcomeUnknown as error:
            _store_log.warning("stream %s: a commit may be stored or not, asking again: %s", stream, error)
            # The store recognises the commit by its id, so this does not append it twice.
            end = await store.append(stream, expected, commit)
    except ConcurrencyConflict as error:
        base = base_of(expected, commit.summary)
        if base is not None and (gone := await store.erasure(base)) is not None:
            raise SessionErased(base, gone.by, gone.at, gone.reason) from error
        raise
    if not isinstance(end, StreamHead):  # pyright: ignore[reportUnnecessaryIsInstance]
        said = f"returned {type(end).__name__}, and has to return the StreamHead after the commit"
        raise ConfigurationError(f"`append` of the store {type(store).__name__} {said}")
    return end


def _tell(on_commit: Callable[[Sequence[Recorded[E]]], None], records: Sequence[Recorded[E]]) -> None:
    try:
        on_commit(records)
    except (Exception, asyncio.CancelledError) as error:  # a plain function is cancelled by nobody else
        log_raised(_log, error, "a listener failed on events %d to %d", records[0].version, records[-1].version)
