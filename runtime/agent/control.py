"""The commands to one session, from any process, that bring something to run: run, resume, send and retry.

`StreamControl` owns the stream, drives it, and takes all other commands. This module decides which execution a command
is about: whether an input was answered before, what a key was used for, and how a message joins a run.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.call_starts import refuse_altered_again
from steptrail.domain.agent.commands import Command, Resume, Retry, Send, Start
from steptrail.domain.agent.config import AgentSnapshot, changes_between
from steptrail.domain.agent.decide import decide, switches_to_its_model
from steptrail.domain.agent.effects import KeepWaiting
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.retrying import can_be_retried, why_no_retry
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, SessionBusy
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_flag
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.keys import KeyUse, said, use_of
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import AgentJournal, OnCommit
from steptrail.runtime.agent.given import refuse_context
from steptrail.runtime.agent.kind import AgentStream, session_stream
from steptrail.runtime.agent.performer import Runner, waits_for_somebody_else
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.below import LookBelow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.stream_lease import LOOKS

_LOOKS_OF_A_SENDER = 60 * LOOKS
"""How many times a sender tries to get the lease of a session at rest. That takes longer than the lease of a process
that died on another machine lasts."""

_log = logging.getLogger("steptrail.runs")


def _said(message: Message, key: str | None, context: JsonValue) -> str:
    """Return what identifies a message under its key; an empty text when it has no key."""
    return said(message, context=context) if key is not None else ""


class SessionControl:
    """The commands to one session. Keeps no connection and no lease between two calls."""

    def __init__(
        self,
        environment: Environment,
        session: SessionId,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._env, self._session = environment, session
        self.stream: AgentStream = session_stream(environment, stream_of(session), on_commit, on_update)

    async def run(self, agent: AnyAgent, start: Start, *, limits: Limits | None = None) -> RunResult[Any]:
        """Have an input answered: start an execution for it, go on with its execution, or return the stored result.

        An execution is found again if it has the newest input of the session, or if it came with the same key. A retry
        counts as the execution that it retries. `limits` replace those of the agent. Raises `CommandRejected` while
        another input is being answered, for the same input with another context, and for a key that was used for
        something else. It also raises that in a session that exists, for a history and with `new`. Raises `SessionBusy`
        while another process runs the session.
        """
        if limits is not None:
            start = replace(start, agent=replace(start.agent, limits=limits))
        journal = await self.stream.journal()
        while True:
            state = journal.committed
            if (before := self._asked_before(state, start)) is not None:
                return await self._answer(journal, agent, before, limits=limits, by=start.by, key=start.key)
            decide(state, start)  # says no before anything is locked
            try:
                if (ended := await self._begun(journal, agent, start)) is not None:
                    return ended
            except SessionBusy:
                now = await journal.reloaded()
                if self._asked_before(now.committed, start) is None:
                    decide(now.committed, start)  # what it is busy with is another input
                if now.committed.is_open or now.committed.version == state.version:
                    raise
            except CommandRejected:
                # A `start` needs no lease: it may have stored this input, or another one, in front of us.
                if not await self.stream.has_grown_since(journal):
                    raise
            # Another process has appended between our read and our lease. It may have answered this input, or crashed.
            journal = await journal.reloaded()

    async def start(self, agent: AnyAgent, start: Start) -> AgentState:
        """Store that an input is to be answered, and run nothing: a worker begins with it. Safe to repeat like `run`.

        Raises `CommandRejected` as `run` does, and for the input of an open execution under a key that is new to it:
        nothing is stored that could keep that key.
        """

        def command_for(state: AgentState) -> Command | None:
            has_key = start.key is None or start.key in state.fold.keys
            if self._asked_before(state, start) is not None and has_key:
                return None
            refuse_context(agent, state, start.context)
            return start

        return await self.stream.append_until(command_for)

    def _asked_before(self, state: AgentState, start: Start) -> int | None:
        """Return the ordinal of the execution that has this input already; None when a new one is to begin.

        Raises `CommandRejected` for the newest input with another context, and for a key with another input or agent.
        """
        key, context = start.key, start.context
        if (use := self._use(state, key, _said(start.input, key, context), "run", start.runs)) is not None:
            return use.execution
        is_the_newest = state.execution is not None and state.execution.input == start.input
        if not is_the_newest or not (state.is_open or key is None):
            return None
        if context is not None and context != state.context:
            why = f"execution {state.execution_id} has this input with another context: `send` says it once more"
            raise CommandRejected("run", self._session, why)
        return state.fold.executions

    def _use(
        self, state: AgentState, key: str | None, what: str, command: str, runs: str | None = None
    ) -> KeyUse | None:
        return use_of(state.fold.keys, key, what, runs=runs, command=command, session=self._session)

    async def _answer(
        self,
        journal: AgentJournal,
        agent: AnyAgent,
        execution: int,
        *,
        limits: Limits | None = None,
        by: str = "user",
        key: str | None = None,
    ) -> RunResult[Any]:
        """Return the stored result of an execution, or go on with it."""
        state, ended_at = journal.committed, journal.committed.ended_at(execution)
        if ended_at is None:
            state = await self.resume(agent, limits=limits, by=by, key=key, journal=journal)
            return RunResult(state, typed=agent.output)
        if execution < state.fold.executions:
            state, _ = await fold_stream(AGENT, self._env.store, self.stream.stream, at=ended_at)
        else:
            await self.stream.tidy_up(journal)
        on = ": it came to no answer, `retry` goes on with it" if can_be_retried(state) else ""
        _log.info(
            "session %s: execution %s has this input already, its result is returned%s",
            self._session,
            state.execution_id,
            on,
        )
        return RunResult(state, stored=True, typed=agent.output)

    async def _begun(
        self, journal: AgentJournal, agent: AnyAgent, command: Start | Retry, *, looks: int = LOOKS
    ) -> RunResult[Any] | None:
        """Begin an execution and drive it to its end; None when the session has grown since the journal read it."""
        refuse_context(agent, journal.committed, command.context)
        performed = partial(Runner, agent)
        ended = await self.stream.own_as_seen(journal, lambda state, took_over: (command,), performed, looks=looks)
        return None if ended is None else RunResult(ended, typed=agent.output)

    async def send(self, agent: AnyAgent, told: Send, metadata: dict[str, JsonValue]) -> RunResult[Any]:
        """Add a message to the session. A session that does not exist is opened with it, and has the `metadata`.

        A session at rest answers the message in a new execution. If an execution is open, the message joins its
        conversation at the next boundary and keeps the run going. If no process runs that execution, this call goes on
        with it; otherwise it returns as soon as the message is stored. After a lost race it tries again until the
        message is stored. Raises `SessionBusy` only when an owner holds a session at rest for a minute and does
        nothing, and `CommandRejected` while an execution with another `context` is open.
        """
        beginning = _beginning(agent, told, metadata, self._env.worker)
        journal = await self.stream.journal()
        while True:
            state = journal.committed
            if (use := self._said_before(state, agent, told)) is not None:
                if state.ended_at(use.execution) is not None:
                    return await self._answer(journal, agent, use.execution)
                return await self._joined(journal, agent, told.by)
            sent: AgentJournal | None = None
            try:
                if state.is_open:
                    refuse_context(agent, state, told.context)
                    sent = await self.stream.append(journal, told)
                elif (ended := await self._begun(journal, agent, beginning, looks=_LOOKS_OF_A_SENDER)) is not None:
                    return ended
            except (CommandRejected, SessionBusy):
                # An execution has probably ended or begun since the read. If the session has not grown, none has.
                if not await self.stream.has_grown_since(journal):
                    raise
            if sent is not None:
                return await self._joined(sent, agent, told.by)
            journal = await journal.reloaded()

    async def post(self, agent: AnyAgent, told: Send, metadata: dict[str, JsonValue]) -> AgentState:
        """Add a message to the session as `send` does, and run nothing: the owner or a worker answers it."""
        beginning = _beginning(agent, told, metadata, None)

        def command_for(state: AgentState) -> Command | None:
            if self._said_before(state, agent, told) is not None:
                return None
            if state.is_open:
                return told
            refuse_context(agent, state, told.context)
            return beginning

        return await self.stream.append_until(command_for)

    def _said_before(self, state: AgentState, agent: AnyAgent, told: Send) -> KeyUse | None:
        what = _said(told.messages[0], told.key, told.context)
        return self._use(state, told.key, what, "send to", agent.snapshot.name)

    async def _joined(self, sent: AgentJournal, agent: AnyAgent, by: str) -> RunResult[Any]:
        """Go on with the session to which a message was added, unless another process runs it."""
        try:
            return RunResult(await self.resume(agent, by=by, journal=sent), typed=agent.output)
        except SessionBusy:
            return RunResult((await sent.reloaded()).committed, typed=agent.output)

    async def retry(self, agent: AnyAgent, command: Retry) -> RunResult[Any]:
        """Retry the last execution, which ended without an answer, in a new one that goes on with the conversation.

        Commands with the same key are one retry. Raises `CommandRejected` when the last execution has answered or is
        not over, and `SessionBusy` when another process retries it at the same time.
        """
        journal = await self.stream.existing()
        seen = journal.committed.fold.executions
        while True:
            state = journal.committed
            if (use := self._use(state, command.key, "retry", "retry")) is not None:
                return await self._answer(journal, agent, use.execution, by=command.by)
            if state.fold.executions != seen:
                raise SessionBusy(self._session)  # what was to be retried is no longer the last one
            command = replace(command, agent=agent.snapshot_beside(state.external_tools))
            decide(state, command)  # says no before anything is locked
            if (ended := await self._begun(journal, agent, command)) is not None:
                return ended
            journal = await journal.reloaded()

    async def requeue(self, retried: Callable[..., Retry]) -> AgentState:
        """Store that the last execution is to be retried, as it is recorded, and run nothing: a worker begins with it.

        `retried` makes the command for the recorded agent. Commands with the same key are one retry. Raises
        `CommandRejected` when the last execution has answered or is not over.
        """
        journal = await self.stream.existing()
        if (agent := journal.committed.agent) is None:
            raise CommandRejected("retry", self._session, str(why_no_retry(journal.committed)))
        return (await self.stream.append(journal, retried(agent=agent))).committed

    async def resume(
        self,
        agent: AnyAgent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        by: str = "user",
        key: str | None = None,
        context: JsonValue = None,
        obeys_pause: bool = False,
        journal: AgentJournal | None = None,
    ) -> AgentState:
        """Go on with the open execution. A session that has finished, or would only wait again, is returned as it is.

        `take_over` takes it from a process that still runs it. `strict` raises `CommandRejected` for an agent whose
        fingerprint differs from the recorded one. `limits`, `error_policy` and `context` replace the recorded ones.
        With `obeys_pause`, for workers, a pause that a person asked for is not lifted but carried out. A `journal` is
        the session as it was seen last; without one it is read. Raises `StoredContextInvalid` for a recorded context
        that does not fit the agent's type.
        """
        a_flag(take_over, "`take_over`")
        a_flag(strict, "`strict`")
        # What is given is refused before it is known whether there is anything to go on with.
        asked = Resume(
            agent=agent.snapshot,
            worker=self._env.worker,
            last_seen=0,
            limits=limits,
            error_policy=error_policy,
            by=by,
            context=context,
        )
        journal = await self.stream.existing() if journal is None else journal
        below = await self._look_below(journal.committed)

        def go_on(state: AgentState, took_over: bool) -> Sequence[Command]:
            execution, snapshot = state.execution, agent.snapshot_beside(state.external_tools)
            if strict and execution is not None and execution.agent.fingerprint != agent.snapshot.fingerprint:
                goes_on = snapshot.switched(switches_to_its_model(execution, snapshot))
                goes_on = goes_on.with_external(state.external_tools)
                changes = ", ".join(changes_between(execution.agent, goes_on)) or "limits, error policy or a workflow"
                why = f"the agent is not the recorded one: {changes}"
                raise CommandRejected("resume", self._session, why)
            refuse_context(agent, state, context)
            is_new = key is not None and key not in state.fold.keys
            is_said = context is not None and context != state.context
            if not took_over and not (limits or error_policy or is_new or is_said) and self.only_waits(state, agent):
                return ()
            resume = AGENT.control.reopen(state, self._env.worker, took_over)
            if not isinstance(resume, Resume):
                return ()
            if state.stop_request is None:
                refuse_altered_again(state)  # before a segment is begun, which would count as a crash
            new_key = key if is_new else None
            moved = below.of(state.version) if _runs_the_same(state.agent, agent, limits) else None
            seen, ended_by = resume.last_seen, resume.ended_by
            return (replace(asked, agent=snapshot, last_seen=seen, ended_by=ended_by, moved=moved, key=new_key),)

        begin = self.stream.obedient(go_on, None if obeys_pause else journal.committed)
        while (state := journal.committed).is_open:
            ended = await self.stream.own_as_seen(journal, begin, partial(Runner, agent), take_over=take_over)
            if ended is not None:
                return ended
            journal = await journal.reloaded()
            below = await self._look_below(journal.committed)
        await self.stream.tidy_up(journal)
        return state

    async def _look_below(self, state: AgentState) -> LookBelow:
        suspended = [call.below for call in state.tool_executions if call.phase is CallPhase.SUSPENDED]
        resting = [below for below in suspended if below is not None]
        return await LookBelow.at(self._env, resting, version=state.version, segment=state.fold.segment + 1)

    def only_waits(self, state: AgentState, agent: AnyAgent) -> bool:
        """Tell whether a resume would only wait again: for the same person, or for a time that is far off."""
        now = max(self._env.clock.utc(), state.as_of)
        due = next_effects(state.at(now), now) if state.phase is Phase.WAITING else ()
        has_its_model = state.agent is None or state.agent.model.model in [each.model for each in agent.snapshot.models]
        # A call that runs a session looks at that session when it goes on. Only then is it known whether that waits.
        # Another model does not wait for a try of the one before.
        looks = {"child"} if has_its_model else {"child", "retry"}
        return any(
            isinstance(effect, KeepWaiting) and effect.kind not in looks and waits_for_somebody_else(effect, state, now)
            for effect in due
        )


def _runs_the_same(recorded: AgentSnapshot | None, agent: AnyAgent, limits: Limits | None) -> bool:
    """Tell whether the same calls run beside each other as recorded. Otherwise all that rest are looked after."""
    if recorded is None or recorded.fingerprint != agent.snapshot.fingerprint:
        return False
    return limits is None or limits.max_concurrent_tools == recorded.limits.max_concurrent_tools


def _beginning(agent: AnyAgent, told: Send, metadata: dict[str, JsonValue], worker: str | None) -> Start:
    """Return the command that says a message in a session at rest."""
    return Start(
        input=told.messages[0],
        agent=agent.snapshot_beside(told.external_tools),
        worker=worker,
        by=told.by,
        key=told.key,
        metadata=metadata,
        context=told.context,
        external_tools=told.external_tools,
        cause=told.cause,
    )
