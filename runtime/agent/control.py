"""What can be done with one session, from any process: run, resume, send, retry, pause, stop, answer what it asks.

A command is an append. Whoever holds the lease runs the session; a command to a session that nobody runs is carried out
at once by the process that brings it. What was looked at before the lease was taken is looked at again under it.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from steptrail.domain.agent.commands import Approve, Command, Deny, Fork, Resume, Retry, Send, Settle, Start
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import KeepWaiting
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.keys import KeyUse, said, use_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, SessionBusy
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.parent import ParentRef
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.agent_journal import AgentJournal, OnCommit, load
from steptrail.runtime.agent.owner import AgentStream, SessionOwner
from steptrail.runtime.agent.performer import waits_for_somebody_else
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.stream_lease import LOOKS

__all__ = ["SessionControl"]

_LOOKS_OF_A_SENDER = 60 * LOOKS
"""A message waits longer for an owner at rest than the lease of one lasts that has died on another machine."""

_log = logging.getLogger("steptrail.runs")


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
        self._owner = SessionOwner(environment, session, on_commit, on_update)
        self.stream: AgentStream = self._owner.stream

    async def run(
        self,
        agent: Agent,
        message: Message,
        *,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        limits: Limits | None = None,
        history: Sequence[Message] = (),
        new: bool = False,
    ) -> RunResult:
        """See to it that an input is answered: start an execution, go on with it, or return what it ended with.

        That holds for the newest input of the session, and for any that came with this `key`; a retry counts as what it
        retries. `limits` hold in place of the agent's. A new session begins with `history`. Raises `CommandRejected`
        while another input is being answered, for a key that came with something else, and for a history in a session
        that exists, or any input there when it is to be `new`; `SessionBusy` while another process runs the session.
        """
        start = Start(
            input=message,
            agent=agent.snapshot if limits is None else agent.snapshot.model_copy(update={"limits": limits}),
            worker=self._env.worker,
            by=by,
            key=key,
            metadata=metadata or {},
            parent=parent,
            history=tuple(history),
            new=new,
        )
        journal = await self.stream.journal()
        while True:
            state = journal.committed
            if (before := self._asked_before(state, message, key)) is not None:
                return await self._answer(journal, agent, before, limits=limits, by=by, key=key)
            decide(state, start)  # says no before anything is locked
            try:
                if (ended := await self._begun(journal, agent, start)) is not None:
                    return ended
            except SessionBusy:
                now = await journal.reloaded()
                if self._asked_before(now.committed, message, key) is None:
                    decide(now.committed, start)  # what it is busy with is another input
                if now.committed.is_open or now.committed.version == state.version:
                    raise
            # Somebody was here between our look and our lease, and may have answered this, or crashed while doing so.
            journal = await journal.reloaded()

    def _asked_before(self, state: AgentState, message: Message, key: str | None) -> int | None:
        """Return the execution that has this input already; None when one is to be begun for it."""
        if (use := self._use(state, key, said(message) if key is not None else "", "run")) is not None:
            return use.execution
        is_the_newest = state.execution is not None and state.execution.input == message
        return state.fold.executions if is_the_newest and (state.is_open or key is None) else None

    def _use(self, state: AgentState, key: str | None, what: str, command: str) -> KeyUse | None:
        return use_of(state.fold.keys, key, what, command=command, session=self._session)

    async def _answer(
        self,
        journal: AgentJournal,
        agent: Agent,
        execution: int,
        *,
        limits: Limits | None = None,
        by: str = "user",
        key: str | None = None,
    ) -> RunResult:
        """Return what the newest try of an execution ended with, or go on with it."""
        state, ended = journal.committed, journal.committed.fold.ended_at_version
        newest = state.fold.newest_try(execution)
        if newest > len(ended):
            return RunResult(await self._resume(journal, agent, limits=limits, by=by, key=key))
        if newest < state.fold.executions:
            state, _ = await load(self._env.store, self._session, at=ended[newest - 1])
        on = ": it came to no answer, `retry` goes on with it" if can_be_retried(state) else ""
        _log.info(
            "session %s: execution %s has this input already, its result is returned%s",
            self._session,
            state.execution_id,
            on,
        )
        return RunResult(state, stored=True)

    async def _begun(
        self, journal: AgentJournal, agent: Agent, command: Start | Retry, *, looks: int = LOOKS
    ) -> RunResult | None:
        """Begin an execution and drive it to where it ends; None when somebody was here since the journal looked."""
        performed = self._owner.performed_by(agent)
        ended = await self.stream.own_as_seen(journal, lambda state, took_over: (command,), performed, looks=looks)
        return None if ended is None else RunResult(ended)

    async def send(self, agent: Agent, message: Message, *, by: str = "user", key: str | None = None) -> RunResult:
        """Say something to the session, which is always something new; one that does not exist is opened with it.

        A session at rest answers it in a new execution. While an execution is open it joins the conversation at the
        next boundary and keeps the run going; when nobody runs that execution, this call goes on with it, and otherwise
        returns as soon as the message is stored. No race is lost: it looks again until the message is stored. Raises
        `SessionBusy` only for an owner that holds a session at rest for a minute without doing anything.
        """
        joining = Send(messages=(message,), by=by, key=key)
        beginning = Start(input=message, agent=agent.snapshot, worker=self._env.worker, by=by, key=key)
        journal = await self.stream.journal()
        while True:
            state = journal.committed
            if (use := self._use(state, key, said(message) if key is not None else "", "send to")) is not None:
                if state.fold.newest_try(use.execution) <= len(state.fold.ended_at_version):
                    return await self._answer(journal, agent, use.execution)
                return await self._joined(journal, agent, by)
            sent: AgentJournal | None = None
            try:
                if state.is_open:
                    sent = await self.stream.append(journal, joining)
                elif (ended := await self._begun(journal, agent, beginning, looks=_LOOKS_OF_A_SENDER)) is not None:
                    return ended
            except (CommandRejected, SessionBusy):
                # An execution has ended or begun since we looked. Where neither has, nobody has moved at all.
                if not await self.stream.has_grown_since(journal):
                    raise
            if sent is not None:
                return await self._joined(sent, agent, by)
            journal = await journal.reloaded()

    async def _joined(self, sent: AgentJournal, agent: Agent, by: str) -> RunResult:
        """Go on with the session to which something was said, unless somebody else runs it."""
        try:
            return RunResult(await self._resume(sent, agent, by=by))
        except SessionBusy:
            return RunResult((await sent.reloaded()).committed)

    async def retry(
        self,
        agent: Agent,
        *,
        by: str = "user",
        reason: str | None = None,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        key: str | None = None,
    ) -> RunResult:
        """Let the last execution, which came to no answer, go on in a new one, in the conversation as it stands.

        `limits` and `error_policy` hold in place of the agent's. Raises `CommandRejected` for one that has answered or
        is not over, and `SessionBusy` for whoever is second of two at once. The same `key` is one retry.
        """
        command = Retry(
            agent=agent.snapshot,
            worker=self._env.worker,
            by=by,
            reason=reason,
            key=key,
            limits=limits,
            error_policy=error_policy,
        )
        journal = await self.stream.existing()
        seen = journal.committed.fold.executions
        while True:
            state = journal.committed
            if (use := self._use(state, key, "retry", "retry")) is not None:
                return await self._answer(journal, agent, use.execution, by=by)
            if state.fold.executions != seen:
                raise SessionBusy(self._session)  # what was to be retried is no longer the last one
            decide(state, command)  # says no before anything is locked
            if (ended := await self._begun(journal, agent, command)) is not None:
                return ended
            journal = await journal.reloaded()

    async def resume(
        self,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        by: str = "user",
    ) -> AgentState:
        """Go on with the unfinished execution; a session that has finished, or waits on, is returned as it is.

        `take_over` takes it from a process that is still running it. `strict` refuses an agent whose fingerprint
        differs from the recorded one. New limits or a new policy replace the recorded ones.
        """
        return await self._resume(
            await self.stream.existing(),
            agent,
            take_over=take_over,
            strict=strict,
            limits=limits,
            error_policy=error_policy,
            by=by,
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
        by: str = "user",
        key: str | None = None,
    ) -> AgentState:
        def go_on(state: AgentState, took_over: bool) -> Sequence[Command]:
            is_new = key is not None and key not in state.fold.keys
            if not took_over and not (limits or error_policy or is_new) and self._waits_on(state):
                return ()
            resume = AGENT.control.reopen(state, self._env.worker, took_over)
            if not isinstance(resume, Resume):
                return ()
            brought = replace(
                resume,
                agent=agent.snapshot,
                limits=limits,
                error_policy=error_policy,
                by=by,
                key=key if is_new else None,
            )
            return (brought,)

        while (state := journal.committed).is_open:
            recorded = state.agent
            if strict and recorded is not None and recorded.fingerprint != agent.snapshot.fingerprint:
                why = "the agent has changed since the execution was recorded, and `strict` was asked for"
                raise CommandRejected("resume", self._session, why)
            performed = self._owner.performed_by(agent)
            ended = await self.stream.own_as_seen(journal, go_on, performed, take_over=take_over)
            if ended is not None:
                return ended
            journal = await journal.reloaded()
        return state

    def _waits_on(self, state: AgentState) -> bool:
        """Tell whether a resume would only wait again: for the same person, or for a time that is far off."""
        now = max(self._env.clock.utc(), state.as_of)
        due = next_effects(state.at(now), now) if state.phase is Phase.WAITING else ()
        # A call that runs a session looks at that session: only by going on is it seen whether it waits on, too.
        return any(
            isinstance(effect, KeepWaiting) and effect.kind != "child" and waits_for_somebody_else(effect, state, now)
            for effect in due
        )

    async def pause(self, *, by: str, reason: str | None = None, key: str | None = None) -> AgentState:
        """Ask for a pause at the next safe point; when nobody runs the session, it is paused when this returns.

        The sessions that its tool calls run are asked as well.
        """
        return await self.stream.request(Pause(by=by, reason=reason, key=key))

    async def stop(self, *, by: str, reason: str | None = None, key: str | None = None) -> AgentState:
        """Ask for a stop; when nobody runs the session, it is finished when this returns.

        The sessions that its tool calls run stop with it.
        """
        return await self.stream.request(Stop(by=by, reason=reason, key=key))

    async def answer(self, command: Settle | Approve | Deny) -> AgentState:
        """Say what a parked call did, or whether a call may run. The session goes on at the next resume."""
        return await self.stream.tell(command)

    async def fork(self, into: SessionId, command: Fork, *, at: int | None = None) -> AgentState:
        """Open the session `into`, which goes on from this one's past, the first `at` events or all.

        Raises `CommandRejected` when something is in flight there, or when `into` exists.
        """
        return await self.stream.fork(
            stream_of(into), lambda digest: replace(command, digest=digest), by=command.by, at=at
        )
