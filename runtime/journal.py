"""The open session in this process: what is stored, and the overlay of what is about to be.

Events go into the overlay and change the state at once; `flush` makes them one commit. When somebody else appended
first, the overlay is dropped, what came in is folded, and the facts of the overlay are put on top of it again: nothing
that happened is lost, and what was only intended is asked of the machine anew.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import cast

from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    StepStarted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.facts import is_fact
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import AppendOutcomeUnknown, ConcurrencyConflict, OwnershipLost, StoreError
from steptrail.domain.event import Event
from steptrail.domain.record import Commit, CommitHead, Recorded, StreamHead
from steptrail.runtime.clock import Clock, SegmentClock
from steptrail.runtime.faults import Reach, no_faults
from steptrail.runtime.ids import new_id
from steptrail.runtime.ports import EventStore

__all__ = ["Journal", "OnCommit", "load"]

OnCommit = Callable[[Sequence[Recorded[AgentEvent]]], None]
"""Told of every commit of this process, after it is durable. What it raises harms nobody."""

_log = logging.getLogger("steptrail")


async def load(store: EventStore, session: SessionId, *, at: int | None = None) -> tuple[AgentState, StreamHead]:
    """Fold a session as of version `at`, or as it stands now; a session that is not there is `absent`."""
    stored = await store.read(stream_of(session), limit=at)
    return evolve_all(initial(session), agent_records(stored.records)), stored.head


def agent_records(records: Sequence[Recorded[Event]]) -> Sequence[Recorded[AgentEvent]]:
    """Return the records of an agent's stream as what they are."""
    return cast("Sequence[Recorded[AgentEvent]]", records)


class Journal:
    """Appends the events of one session for one owner. Not shared between tasks."""

    def __init__(
        self,
        store: EventStore,
        session: SessionId,
        state: AgentState,
        head: StreamHead,
        *,
        clock: Clock,
        actor: str,
        reach: Reach = no_faults,
        on_commit: OnCommit | None = None,
    ) -> None:
        self._store, self._stream = store, stream_of(session)
        self._clock = SegmentClock(clock, not_before=state.as_of)
        self._actor, self._reach, self._on_commit = actor, reach, on_commit
        self._committed, self._head = state, head
        self._overlay: list[Recorded[AgentEvent]] = []
        self._state = state
        self._segment: int | None = None
        self._calls: dict[int, tuple[str, int]] = {}

    @classmethod
    async def open(
        cls,
        store: EventStore,
        session: SessionId,
        *,
        clock: Clock,
        actor: str,
        reach: Reach = no_faults,
        on_commit: OnCommit | None = None,
    ) -> "Journal":
        """Fold the session from the store and return its journal."""
        state, head = await load(store, session)
        return cls(store, session, state, head, clock=clock, actor=actor, reach=reach, on_commit=on_commit)

    @property
    def state(self) -> AgentState:
        """The state with the overlay, looked at now."""
        return self._state.at(self._clock.now())

    @property
    def committed(self) -> AgentState:
        """The state as it is stored."""
        return self._committed

    def now(self) -> int:
        """Return the instant, in microseconds of UTC."""
        return self._clock.now()

    def claim_segment(self) -> None:
        """Take the segment that the overlay opens as ours: a later one in the log means that we lost the session."""
        self._segment = self._state.fold.segment

    def give_up_segment(self) -> None:
        """Forget the claim: the events that were to open the segment were not stored."""
        self._segment = None

    @property
    def owns_the_session(self) -> bool:
        """Whether the segment that was claimed is stored and still the newest one known here."""
        return self._segment is not None and self._committed.fold.segment == self._segment

    def record(self, *events: AgentEvent) -> None:
        """Put events on top of the state."""
        now, version = self._clock.now(), self._state.version
        records = [Recorded(version + i, now, event) for i, event in enumerate(events, 1)]
        self._overlay.extend(records)
        self._state = evolve_all(self._state, records)

    async def flush(self) -> bool:
        """Make the overlay durable as one commit. False: somebody appended first, and the machine must be asked anew.

        Raises `OwnershipLost` when that somebody is a new owner. A cancellation waits for the commit in flight.
        """
        if not self._overlay:
            return True
        head = CommitHead(commit_id=new_id("c"), actor=self._actor, segment=self._segment or 0)
        commit = Commit(head, tuple((record.at, record.event) for record in self._overlay))
        self._reach("before-append")
        append = asyncio.ensure_future(self._append(commit))
        cancelled = await _ended(append)
        try:
            stored = self._appended(append.result())
        except StoreError as error:
            if cancelled is not None:
                raise cancelled from error
            if not isinstance(error, ConcurrencyConflict):
                raise
            await self.refresh()
            return False
        self._reach("after-append")
        if self._on_commit is not None:
            _tell(self._on_commit, stored)
        if cancelled is not None:
            raise cancelled
        return True

    async def _append(self, commit: Commit) -> StreamHead:
        try:
            return await self._store.append(self._stream, self._head, commit)
        except AppendOutcomeUnknown:
            # The commit id tells whether it is there, so asking again repeats nothing.
            return await self._store.append(self._stream, self._head, commit)

    def _appended(self, head: StreamHead) -> Sequence[Recorded[AgentEvent]]:
        stored, self._overlay = self._overlay, []
        self._committed, self._head = self._state, head
        # The results of the calls that were noted are stored now.
        self._calls.clear()
        return stored

    async def refresh(self) -> None:
        """Fold what others appended, and put our facts on top of it again."""
        stored = await self._store.read(self._stream, after=self._committed.version)
        self._committed = evolve_all(self._committed, agent_records(stored.records))
        self._head = stored.head
        facts = [record for record in _before_what_was_begun(self._overlay) if is_fact(record.event)]
        self._overlay, self._state = [], self._committed
        if self._segment is not None and self._committed.fold.segment > self._segment:
            await self._settle_late(facts)
            raise OwnershipLost(self._committed.agent_id, self._segment, self._committed.fold.segment)
        for fact in facts:
            at = max(fact.at, self._state.as_of)
            record = Recorded(self._state.version + 1, at, fact.event)
            self._overlay.append(record)
            self._state = evolve_all(self._state, [record])

    async def fold_news(self) -> None:
        """Fold what others appended while an effect is in flight. A lost session is found out when that has ended."""
        if self._overlay:
            return
        stored = await self._store.read(self._stream, after=self._committed.version)
        ahead = evolve_all(self._committed, agent_records(stored.records))
        if self._segment is None or ahead.fold.segment == self._segment:
            self._committed = self._state = ahead
            self._head = stored.head

    def holds(self, kind: Callable[[AgentEvent], bool]) -> bool:
        """Tell whether the overlay holds an event of that kind."""
        return any(kind(record.event) for record in self._overlay)

    async def has_news(self) -> bool:
        """Tell whether somebody else has appended. Cheap."""
        return await self._store.version(self._stream) > self._head.version

    async def _settle_late(self, facts: Sequence[Recorded[AgentEvent]]) -> None:
        """Append what our tools did after we lost the session; all else we know is worth nothing any more."""
        segment = self._segment or 1
        for fact in facts:
            late = _late(fact.event, self._calls, segment)
            if late is None:
                continue
            head = CommitHead(commit_id=new_id("c"), actor=self._actor, segment=segment)
            while True:
                try:
                    await self._store.append(self._stream, self._head, Commit(head, ((self.now(), late),)))
                    break
                except ConcurrencyConflict:
                    self._head = (await self._store.read(self._stream, after=self._head.version)).head

    def note_call(self, position: int, effect_id: str, attempt: int) -> None:
        """Remember what a call in flight is called, so that its result can be reported after a take-over."""
        self._calls[position] = (effect_id, attempt)


def _late(event: AgentEvent, calls: dict[int, tuple[str, int]], segment: int) -> ToolExecutionSettledLate | None:
    if not isinstance(event, ToolExecutionCompleted | ToolExecutionFailed) or event.position not in calls:
        return None
    effect, attempt = calls[event.position]
    if isinstance(event, ToolExecutionFailed):
        return ToolExecutionSettledLate(effect_id=effect, attempt=attempt, segment=segment, error=event.error)
    return ToolExecutionSettledLate(
        effect_id=effect,
        attempt=attempt,
        segment=segment,
        result=event.result,
        shown_characters=event.shown_characters,
    )


def _before_what_was_begun(overlay: Sequence[Recorded[AgentEvent]]) -> Iterator[Recorded[AgentEvent]]:
    """Yield what came before a decision or a step that was never stored.

    Nothing after it has met the outside world, or it would have been stored. What hooks did in a step goes with the
    step, and they run again in the one that takes its place.
    """
    return takewhile(lambda record: not isinstance(record.event, ContinuationEvaluated | StepStarted), overlay)


async def _ended(task: "asyncio.Future[StreamHead]") -> asyncio.CancelledError | None:
    """Wait for a commit also through a cancellation, and return that: it is raised when the journal knows its end."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _tell(on_commit: OnCommit, records: Sequence[Recorded[AgentEvent]]) -> None:
    try:
        on_commit(records)
    except Exception:
        _log.exception("a listener failed on events %d to %d", records[0].version, records[-1].version)
