"""One session in one process: its journal, its lease, and the segment that is driven under that lease.

What is asked of a session stands in `control`; here is how it comes to be stored and worked at.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from steptrail.domain.agent.commands import Command, Resume
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.agent.ids import SessionId, session_for_call, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.errors import CommandRejected, SessionBusy, SessionNotFound, StoreError
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.runtime.agent import run_log
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.agent_journal import AgentJournal, OnCommit
from steptrail.runtime.agent.children import ChildSession
from steptrail.runtime.agent.performer import Runner
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.live_fanout import LiveFeed
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.log_context import LogPlace, log_place
from steptrail.runtime.kernel.observer import Observer
from steptrail.runtime.kernel.ports import EventStore, Lease

if TYPE_CHECKING:
    from steptrail.runtime.agent.control import SessionControl

__all__ = ["LOOKS", "Environment", "SessionOwner", "this_worker"]

LOOKS, _LOOK_SECONDS = 20, 0.05
"""How often, and how long apart, to look again whether an owner that has nothing more to do has let go."""

_RESTING = frozenset({Phase.ABSENT, Phase.IDLE, Phase.PAUSED, Phase.WAITING})


def this_worker() -> str:
    """Return how this process is called in the log: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What every session of a process shares."""

    store: EventStore
    clock: Clock = field(default_factory=SystemClock)
    worker: str = field(default_factory=this_worker)
    reach: Reach = no_faults
    observer: Observer[AgentState, AgentEvent] | None = None
    feed: LiveFeed = field(default_factory=LiveFeed)


class SessionOwner:
    """Appends to one session, and drives it while it has the lease. Holds nothing open between two calls.

    `control_of` gives the commands of other sessions: of those that the calls of this one run.
    """

    def __init__(
        self,
        environment: Environment,
        session: SessionId,
        on_commit: OnCommit | None,
        on_update: OnUpdate | None,
        *,
        control_of: Callable[[SessionId], "SessionControl"],
    ) -> None:
        self._env, self._session = environment, session
        self._on_commit, self._on_update = on_commit, on_update
        self._control_of = control_of
        self._left_at: int | None = None

    async def journal(self) -> AgentJournal:
        """Return a journal of the session as it is stored now, which may be none at all."""
        return await AgentJournal.open(
            AGENT,
            self._env.store,
            stream_of(self._session),
            clock=self._env.clock,
            actor=self._env.worker,
            reach=self._env.reach,
            on_commit=self._on_commit,
            observer=self._env.observer,
        )

    async def existing(self) -> AgentJournal:
        """Return a journal of the session, or raise `SessionNotFound`."""
        journal = await self.journal()
        if journal.committed.phase is Phase.ABSENT:
            raise SessionNotFound(self._session)
        return journal

    async def is_news_to(self, journal: AgentJournal) -> bool:
        """Tell whether somebody was here since the journal looked. Asked under the lease, where it stays true."""
        return await self._env.store.version(stream_of(self._session)) != journal.committed.version

    async def append(self, journal: AgentJournal, command: Command) -> AgentJournal:
        """Store a command that needs no owner, and return a journal that holds it. Raises `CommandRejected`."""
        while True:
            # Anew after a lost append too: a journal would keep what was decided as a fact, beside the new decision.
            asking = await journal.reloaded(actor=str(getattr(command, "by", "user")))
            asking.record(*decide(asking.committed, command))
            if await asking.flush():
                return asking

    @asynccontextmanager
    async def lease(
        self, journal: AgentJournal, *, take_over: bool = False, looks: int = LOOKS, to_be_last: bool = True
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
                    if await self._env.store.version(stream_of(self._session)) != self._left_at:
                        await self.carry_out_late(await self.journal())

    async def _acquire(self, journal: AgentJournal, *, take_over: bool, looks: int) -> Lease:
        """Take the lease, and wait a moment for an owner that is about to begin, or has ended and is letting go."""
        store, stream = self._env.store, stream_of(self._session)
        rested_at: int | None = None
        while True:
            try:
                return await store.acquire(stream, owner="a steptrail runner", take_over=take_over)
            except SessionBusy:
                if rested_at is None:
                    state = (await journal.reloaded()).committed
                    if state.phase not in _RESTING:
                        raise
                    rested_at = state.version
                if looks == 0 or await store.version(stream) != rested_at:
                    raise
            looks -= 1
            await asyncio.sleep(_LOOK_SECONDS)

    async def drive(
        self,
        journal: AgentJournal,
        agent: Agent | None,
        begin: Callable[[AgentJournal], None],
        *,
        took_over: bool = False,
    ) -> AgentState:
        """Open a segment with what `begin` records, and drive it to where it ends. Only under the lease."""
        journal = await journal.reloaded(actor=self._env.worker)
        child_of, watching = partial(self._child_of, take_over=took_over), partial(self._watcher, journal)
        runner = Runner(journal, agent, reach=self._env.reach, watching=watching, child_of=child_of)
        while True:
            begin(journal)
            journal.claim_segment()
            try:
                stored = await journal.flush()
            except asyncio.CancelledError:
                if journal.owns_the_session:
                    await runner.pause_for_the_caller()
                raise
            if stored:
                break
        run_log.began(journal.committed)
        place = log_place.set(LogPlace(self._session))
        try:
            state = await runner.run()
        finally:
            log_place.reset(place)
            self._env.feed.forget(self._session)
        run_log.ended(state)
        await self._stop_children(self.left_at(state))
        return state

    def left_at(self, state: AgentState) -> AgentState:
        """Note that this is how the session is left, and return it."""
        self._left_at = state.version
        return state

    async def close_alone(self, journal: AgentJournal, command: Pause | Stop) -> AgentState:
        """Carry out a command on a session that nobody runs, with what is recorded of its agent."""

        def begin(now: AgentJournal) -> None:
            state = now.committed
            recorded = state.agent
            at_rest = state.phase in {Phase.PAUSED, Phase.WAITING} and isinstance(command, Pause)
            if recorded is not None and state.is_open and not at_rest:
                resume = Resume(agent=recorded, worker=self._env.worker, last_seen=state.fold.seen_at)
                now.record(*decide(state, resume))
            now.record(*decide(now.state, command))

        return await self.drive(journal, None, begin)

    async def carry_out_late(self, journal: AgentJournal) -> None:
        """Do what was asked for of an owner that did not come to see it any more.

        Whoever lets go of a session looks here, and so does whoever asked something of its owner: one of them is last.
        """
        if _asked_of(journal.committed) is None:
            return
        with suppress(SessionBusy):
            async with self.lease(journal, looks=0, to_be_last=False):
                journal = await journal.reloaded()
                # Its owner may have come to see it while it was letting go.
                if (command := _asked_of(journal.committed)) is not None:
                    await self.close_alone(journal, command)

    async def pause_children(self, state: AgentState, command: Pause) -> None:
        """Ask the sessions that the open calls run to pause as well."""
        for child in self._children(state, state.tool_executions):
            with suppress(SessionNotFound, CommandRejected):  # one that has not begun, and one that has ended
                await child.pause(by=command.by, reason=command.reason)

    async def _stop_children(self, state: AgentState) -> None:
        """Leave no session behind whose call has been closed with the run."""
        if state.is_open or state.current_step is None:
            return
        by = state.stop_request.by if state.stop_request is not None else "parent"
        for child in self._children(state, state.current_step.tool_executions):
            with suppress(SessionNotFound, CommandRejected, StoreError):
                await child.stop(by=by, reason=f"session {self._session} has ended")

    def _children(self, state: AgentState, calls: Sequence[ToolExecution]) -> "list[SessionControl]":
        """Return the sessions that these calls began and did not bring to an end."""
        found: list[SessionControl] = []
        for call in calls:
            spec = state.agent.tool(call.name) if state.agent is not None else None
            if spec is not None and spec.runs_agents and call.effect_id and call.status is not CallStatus.COMPLETED:
                found.append(self._control_of(SessionId(session_for_call(call.effect_id))))
        return found

    def _child_of(self, parent: ParentRef, *, take_over: bool) -> ChildSession:
        control = self._control_of(SessionId(session_for_call(parent.effect)))
        return ChildSession(self._env.store, self._env.clock, parent, control, take_over=take_over)

    def _watcher(self, journal: AgentJournal) -> OnUpdate | None:
        own = self._on_update if self._env.observer is None else self._env.observer.watcher(self._on_update)
        return self._env.feed.watcher(self._session, own, lambda: journal.committed.version)


def _asked_of(state: AgentState) -> Pause | Stop | None:
    """Return what somebody asked of the owner and has not got; a stop rather than a pause."""
    asked = state.stop_request or state.pause_request
    if not state.is_open or asked is None:
        return None
    command = Stop if state.stop_request is not None else Pause
    return command(by=asked.by, reason=asked.reason)
