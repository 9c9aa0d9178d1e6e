"""What can be done with one session, from any process: run, resume, send, pause, stop, answer what it asks.

A command is an append. Whoever holds the lease runs the session; a command to a session that nobody runs is carried out
at once by the process that brings it.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import JsonValue

from steptrail.domain.agent.commands import Approve, Command, Deny, Fork, Pause, Resume, Send, Settle, Start, Stop
from steptrail.domain.agent.config import Limits
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.execution import SegmentEnd
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.agent.ids import SessionId, session_for_call, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.errors import CommandRejected, ConcurrencyConflict, SessionBusy, SessionNotFound, StoreError
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.record import EMPTY_STREAM, Commit, CommitHead
from steptrail.runtime import run_log
from steptrail.runtime.agent import Agent
from steptrail.runtime.agent_journal import AgentJournal, OnCommit, load
from steptrail.runtime.children import ChildSession
from steptrail.runtime.clock import Clock, SystemClock
from steptrail.runtime.faults import Reach, no_faults
from steptrail.runtime.ids import new_id
from steptrail.runtime.live import OnUpdate
from steptrail.runtime.live_feed import LiveFeed
from steptrail.runtime.log_context import LogPlace, log_place
from steptrail.runtime.observing import Observer
from steptrail.runtime.ports import EventStore, Lease
from steptrail.runtime.runner import Runner

__all__ = ["Environment", "SessionControl", "this_worker"]

_LOOKS, _LOOK_SECONDS = 20, 0.05
"""How often, and how long apart, to look again whether an owner that has nothing more to do has let go."""


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


class SessionControl:
    """Commands to one session. Holds nothing open between two calls."""

    def __init__(
        self,
        environment: Environment,
        session: SessionId,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._env, self._session = environment, session
        self._on_commit, self._on_update = on_commit, on_update
        self._left_at: int | None = None

    async def run(
        self,
        agent: Agent,
        message: Message,
        *,
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        limits: Limits | None = None,
        history: Sequence[Message] = (),
    ) -> AgentState:
        """Answer an input: start an execution, or go on with the unfinished one that has this input or key.

        A key that has finished returns what it ended with. `limits` hold in place of the agent's. A new session begins
        with `history`. Raises `CommandRejected` while another input is being answered, or for a history in a session
        that exists, and `SessionBusy` while another process runs the session.
        """
        journal = await self._journal()
        return await self._run(
            journal, agent, message, key=key, metadata=metadata, parent=parent, limits=limits, history=history
        )

    async def _run(
        self,
        journal: AgentJournal,
        agent: Agent,
        message: Message,
        *,
        key: str | None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        limits: Limits | None = None,
        history: Sequence[Message] = (),
    ) -> AgentState:
        state = journal.committed
        ordinal = state.fold.keys.get(key) if key is not None else None
        if ordinal is not None and ordinal <= len(state.fold.ended_at_version):
            stored, _ = await load(self._env.store, self._session, at=state.fold.ended_at_version[ordinal - 1])
            return self._checked(stored, key, message)
        if ordinal is not None:
            self._checked(state, key, message)
        if state.execution is not None and state.is_open and (ordinal or state.execution.input == message):
            return await self._resume(journal, agent, limits=limits)
        start = Start(
            input=message,
            agent=agent.snapshot if limits is None else agent.snapshot.model_copy(update={"limits": limits}),
            worker=self._env.worker,
            key=key,
            metadata=metadata or {},
            parent=parent,
            history=tuple(history),
        )
        decide(state, start)  # says no before anything is locked
        async with self._lease(journal):
            if await self._env.store.version(stream_of(self._session)) == state.version:
                return await self._drive(journal, agent, lambda now: now.record(*decide(now.committed, start)))
        # Somebody was here between our look and our lease, and may have answered this, or crashed while answering it.
        anew = await journal.anew()
        return await self._run(
            anew, agent, message, key=key, metadata=metadata, parent=parent, limits=limits, history=history
        )

    def _checked(self, state: AgentState, key: str | None, message: Message) -> AgentState:
        """Refuse a key that came with another input: its result would be taken for an answer to this one."""
        began = state.execution
        if began is not None and began.key == key and began.input != message:
            why = f"the key {key!r} came with another input before: use another key for this one"
            raise CommandRejected("run", self._session, why)
        return state

    async def resume(
        self,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
    ) -> AgentState:
        """Go on with the unfinished execution; a finished session is returned as it is.

        `take_over` takes it from a process that is still running it. `strict` refuses an agent whose fingerprint
        differs from the recorded one. New limits or a new policy replace the recorded ones.
        """
        return await self._resume(
            await self._existing(),
            agent,
            take_over=take_over,
            strict=strict,
            limits=limits,
            error_policy=error_policy,
        )

    async def _resume(
        self,
        journal: AgentJournal,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
    ) -> AgentState:
        state = journal.committed
        if not state.is_open:
            return state
        recorded = state.agent
        if strict and recorded is not None and recorded.fingerprint != agent.snapshot.fingerprint:
            why = "the agent has changed since the execution was recorded, and `strict` was asked for"
            raise CommandRejected("resume", self._session, why)

        def go_on(journal: AgentJournal) -> None:
            now = journal.committed
            resume = Resume(
                agent=agent.snapshot,
                worker=self._env.worker,
                last_seen=now.fold.seen_at,
                ended_by=SegmentEnd.TAKE_OVER if taken else None,
                limits=limits,
                error_policy=error_policy,
            )
            journal.record(*decide(now, resume))

        taken = False
        try:
            async with self._lease(journal):
                if await self._env.store.version(stream_of(self._session)) == state.version:
                    return await self._drive(journal, agent, go_on)
            return await self._resume(
                await journal.anew(),
                agent,
                take_over=take_over,
                strict=strict,
                limits=limits,
                error_policy=error_policy,
            )
        except SessionBusy:
            if not take_over:
                raise
        taken = True
        async with self._lease(journal, take_over=True):
            return await self._drive(journal, agent, go_on, took_over=True)

    async def send(self, agent: Agent, message: Message, *, by: str = "user", key: str | None = None) -> AgentState:
        """Say something to the session.

        An idle session answers it in a new execution. While an execution is open it joins the conversation at the next
        boundary and keeps the run going; when nobody runs that execution, this call goes on with it.
        """
        journal = await self._existing()
        if not journal.committed.is_open:
            return await self._run(journal, agent, message, key=key)
        try:
            sent = await self._append(journal, Send(messages=(message,), by=by, key=key))
        except CommandRejected:
            # It has finished since we looked, so this is the input of its next execution.
            return await self.send(agent, message, by=by, key=key)
        try:
            return await self._resume(sent, agent)
        except SessionBusy:
            return (await sent.anew()).committed

    async def pause(self, *, by: str, reason: str | None = None, key: str | None = None) -> AgentState:
        """Ask for a pause at the next safe point; when nobody runs the session, it is paused when this returns.

        The sessions that its tool calls run are asked as well.
        """
        return await self._request(Pause(by=by, reason=reason, key=key))

    async def stop(self, *, by: str, reason: str | None = None, key: str | None = None) -> AgentState:
        """Ask for a stop; when nobody runs the session, it is finished when this returns.

        The sessions that its tool calls run stop with it.
        """
        return await self._request(Stop(by=by, reason=reason, key=key))

    async def answer(self, command: Settle | Approve | Deny) -> AgentState:
        """Say what a parked call did, or whether a call may run. The session goes on at the next resume."""
        answered = await self._append(await self._existing(), command)
        return answered.committed

    async def fork(self, into: SessionId, command: Fork, *, at: int | None = None) -> AgentState:
        """Open the session `into`, which goes on from this one's past, the first `at` events or all.

        Raises `CommandRejected` when something is in flight there, or when `into` exists.
        """
        state, _ = await load(self._env.store, self._session, at=at)
        if state.phase is Phase.ABSENT:
            raise SessionNotFound(self._session)
        if at is not None and at != state.version:
            raise CommandRejected("fork", self._session, f"it has {state.version} events and not {at}")
        digest = await self._env.store.digest(stream_of(self._session), state.version)
        events = decide(state, replace(command, digest=digest.hex()))
        now = max(self._env.clock.utc(), state.as_of)
        commit = Commit(CommitHead(commit_id=new_id("c"), actor=command.by), tuple((now, event) for event in events))
        try:
            await self._env.store.append(stream_of(into), EMPTY_STREAM, commit)
        except ConcurrencyConflict as error:
            raise CommandRejected("fork", self._session, f"the session {into!r} exists already") from error
        forked, _ = await load(self._env.store, into)
        return forked

    async def _request(self, command: Pause | Stop) -> AgentState:
        journal = await self._existing()
        if decide(journal.committed, command):
            try:
                async with self._lease(journal):
                    return await self._close_alone(journal, command)
            except SessionBusy:
                journal = await self._append(journal, command)
                if isinstance(command, Pause):
                    await self._pause_children(journal.committed, command)
        await self._carry_out_late(journal)
        return (await journal.anew()).committed

    async def _carry_out_late(self, journal: AgentJournal) -> None:
        """Do what was asked for of an owner that did not come to see it any more.

        Whoever lets go of a session looks here, and so does whoever asked something of its owner: one of them is last.
        """
        if _asked_of(journal.committed) is None:
            return
        with suppress(SessionBusy):
            async with self._lease(journal, patiently=False, to_be_last=False):
                journal = await journal.anew()
                # Its owner may have come to see it while it was letting go.
                if (command := _asked_of(journal.committed)) is not None:
                    await self._close_alone(journal, command)

    async def _close_alone(self, journal: AgentJournal, command: Pause | Stop) -> AgentState:
        """Carry out a command on a session that nobody runs, with what is recorded of its agent."""

        def begin(now: AgentJournal) -> None:
            state = now.committed
            recorded = state.agent
            at_rest = state.phase in {Phase.PAUSED, Phase.WAITING} and isinstance(command, Pause)
            if recorded is not None and state.is_open and not at_rest:
                resume = Resume(agent=recorded, worker=self._env.worker, last_seen=state.fold.seen_at)
                now.record(*decide(state, resume))
            now.record(*decide(now.state, command))

        return await self._drive(journal, None, begin)

    async def _drive(
        self,
        journal: AgentJournal,
        agent: Agent | None,
        begin: Callable[[AgentJournal], None],
        *,
        took_over: bool = False,
    ) -> AgentState:
        journal = await journal.anew(actor=self._env.worker)
        child_of = partial(self._child_of, take_over=took_over)
        watching = partial(self._watcher, journal)
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
                run_log.began(journal.committed)
                place = log_place.set(LogPlace(self._session))
                try:
                    state = await runner.run()
                finally:
                    log_place.reset(place)
                    self._env.feed.forget(self._session)
                run_log.ended(state)
                self._left_at = state.version
                await self._stop_children(state)
                return state
            journal.give_up_segment()

    def _watcher(self, journal: AgentJournal) -> OnUpdate | None:
        own = self._on_update if self._env.observer is None else self._env.observer.watcher(self._on_update)
        return self._env.feed.watcher(self._session, own, lambda: journal.committed.version)

    def _child_of(self, parent: ParentRef, *, take_over: bool) -> ChildSession:
        control = SessionControl(self._env, SessionId(session_for_call(parent.effect)))
        return ChildSession(self._env.store, self._env.clock, parent, control, take_over=take_over)

    async def _pause_children(self, state: AgentState, command: Pause) -> None:
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

    def _children(self, state: AgentState, calls: Sequence[ToolExecution]) -> list["SessionControl"]:
        """Return the sessions that these calls began and did not bring to an end."""
        found: list[SessionControl] = []
        for call in calls:
            spec = state.agent.tool(call.name) if state.agent is not None else None
            if spec is not None and spec.runs_agents and call.effect_id and call.status is not CallStatus.COMPLETED:
                found.append(SessionControl(self._env, SessionId(session_for_call(call.effect_id))))
        return found

    async def _append(self, journal: AgentJournal, command: Command) -> AgentJournal:
        while True:
            # Anew after a lost append too: a journal would keep what was decided as a fact, beside the new decision.
            asking = await journal.anew(actor=_actor(command))
            asking.record(*decide(asking.committed, command))
            if await asking.flush():
                return asking

    async def _journal(self) -> AgentJournal:
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

    async def _existing(self) -> AgentJournal:
        journal = await self._journal()
        if journal.committed.phase is Phase.ABSENT:
            raise SessionNotFound(self._session)
        return journal

    @asynccontextmanager
    async def _lease(
        self, journal: AgentJournal, *, take_over: bool = False, patiently: bool = True, to_be_last: bool = True
    ) -> AsyncGenerator[None]:
        self._env.reach("before-acquire")
        lease = await self._acquire(journal, take_over=take_over, patience=_LOOKS if patiently else 0)
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
                        await self._carry_out_late(await self._journal())

    async def _acquire(self, journal: AgentJournal, *, take_over: bool, patience: int) -> Lease:
        """Take the lease, and wait a moment for an owner that has come to the end of its work and is letting go."""
        store, stream = self._env.store, stream_of(self._session)
        rested_at: int | None = None
        while True:
            try:
                return await store.acquire(stream, owner="a steptrail runner", take_over=take_over)
            except SessionBusy:
                if rested_at is None:
                    state = (await journal.anew()).committed
                    if state.phase not in {Phase.IDLE, Phase.PAUSED, Phase.WAITING}:
                        raise
                    rested_at = state.version
                if patience == 0 or await store.version(stream) != rested_at:
                    raise
            patience -= 1
            await asyncio.sleep(_LOOK_SECONDS)


def _asked_of(state: AgentState) -> Pause | Stop | None:
    """Return what somebody asked of the owner and has not got; a stop rather than a pause."""
    asked = state.stop_request or state.pause_request
    if not state.is_open or asked is None:
        return None
    command = Stop if state.stop_request is not None else Pause
    return command(by=asked.by, reason=asked.reason)


def _actor(command: Command) -> str:
    return str(getattr(command, "by", "user"))
