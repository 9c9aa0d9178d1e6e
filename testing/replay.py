"""A recorded session driven again from its first input to its last, with an agent of today and without the world.

Whatever came from outside is done again where it came: inputs, answers, pauses, stops, and also the deaths of the
process. The clock is the recording's, so limits on time find the time that was, and nobody waits.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Generic

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.errors import CommandRejected, NotARecording
from steptrail.domain.files import with_files
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded
from steptrail.domain.messages import FilePart, Message
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.tools.external import ExternalTool
from steptrail.interfaces.python.recording import Recording
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.decisions import CallRow, DecisionRow, EndRow, project_decisions
from steptrail.runtime.agent.agent import Agent, AnyAgent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.type_variables import OutputT
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.files import File
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.clock import ManualClock
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.recorded_run import Command, RecordedEffect, RecordedRun, ended_by_itself
from steptrail.testing.replay_model import Match
from steptrail.testing.replay_tools import replayed

_UNKNOWN = CommitHead(commit_id="past", actor="replay")
_LONGEST_WAIT_FOR_A_COMMIT = 10.0
"""Seconds. Only a run that differs from its recording ever waits that long."""


@dataclass(frozen=True)
class Replay(Generic[OutputT]):
    """The result of a replay."""

    result: RunResult[OutputT]
    records: Sequence[Recorded[stored.AgentEvent]]

    @property
    def events(self) -> tuple[stored.AgentEvent, ...]:
        """The events, in order. `normalise` takes away what differs between any two processes."""
        return tuple(record.event for record in self.records)

    @property
    def decisions(self) -> tuple[DecisionRow, ...]:
        """Every decision."""
        return project_decisions(self.records).decisions

    @property
    def calls(self) -> tuple[CallRow, ...]:
        """Every tool call that was run."""
        return project_decisions(self.records).calls

    @property
    def endings(self) -> tuple[EndRow, ...]:
        """How each execution ended."""
        return project_decisions(self.records).endings


async def replay(agent: Agent[OutputT, Any], recording: Recording, *, match: Match = "strict") -> Replay[OutputT]:
    """Drive the session again on a store in memory, with the agent's code and the recorded replies and results.

    Raises `ReplayMismatch` as soon as the agent asks for something that was not recorded, and `NotARecording` for a
    session that cannot be driven again, with the event that is in the way. Raises `ConfigurationError` for what is no
    agent or no recording.
    """
    a_kind_of(Recording, recording, "what is replayed")
    run = RecordedRun(recording, is_driven=True)
    if run.obstacles:
        raise NotARecording(f"session {recording.session!r} cannot be driven again: {run.obstacles[0]}")
    driver = _Driver(recording, run.history)
    async with driver.trail:
        await _store_past(driver.trail.store, recording)
        await driver.go(replayed(agent, recording, match=match, live=driver), run.commands)
        session = driver.trail.session(recording.session)
        return Replay(await session.result(agent), await session.history())


class _Died(BaseException):
    """The recorded process died here."""


class _Driver:
    """Gives the recorded commands: to a session at rest one after the other, to one at work from inside its effects."""

    def __init__(self, recording: Recording, history: Sequence[Message]) -> None:
        self._clock = ManualClock(to_datetime(recording.records[0].at))
        self._drawn = (
            e.draw for e in recording.events if isinstance(e, stored.RetryScheduled | stored.ToolRetryScheduled)
        )
        moved = {e.segment: e.moved for e in recording.events if isinstance(e, stored.ExecutionResumed)}
        store = open_store("sqlite:///:memory:")
        self.trail = Steptrail(Environment(store=store, clock=self._clock, draw=self._draw, moved=moved.get))
        self._session, self._history = recording.session, with_files(tuple(history), _without_bytes)
        self._began = next((event for event in recording.events if isinstance(event, stored.SessionStarted)), None)
        self._agent: AnyAgent | None = None
        self._at_work: asyncio.Task[Any] | None = None
        self._ended_calls = 0

    async def go(self, agent: AnyAgent, commands: Sequence[Command]) -> None:
        """Give every command that found the session at rest."""
        self._agent = agent
        for command in commands:
            self._at_work = at_work = asyncio.ensure_future(self._give(command))
            try:
                await asyncio.wait([at_work])
            except asyncio.CancelledError:
                at_work.cancel()
                await asyncio.wait([at_work])
                raise
            error = None if at_work.cancelled() else at_work.exception()
            if error is not None and not isinstance(error, _Died):
                raise error

    async def reach_end(self, effect: RecordedEffect[Any]) -> None:
        """See `Live`."""
        for command in effect.commands:
            await self._give(command)
        await self._until_stored(effect.ended_before_the_cut)
        if effect.was_cut_by == "crash":
            raise _Died
        if effect.ended_at is not None:
            self._clock.reach(effect.ended_at)
        if effect.was_cut_by == "cancelled" and self._at_work is not None:
            self._at_work.cancel()

    async def _give(self, command: Command) -> None:
        self._clock.reach(command.at)
        try:
            await self._perform(command, self.trail.session(self._session, on_commit=self._on_commit))
        except CommandRejected as error:
            what = f"event {command.version} ({command.event.TYPE}) does not come about again: {error}"
            raise ReplayMismatch(f"session {self._session!r} runs otherwise. {what}") from error

    async def _perform(self, command: Command, session: Session) -> None:
        agent, effect_id = self._agent, command.effect_id or ""
        assert agent is not None
        context = getattr(command.event, "context", None)
        said = agent.context.read(context) if agent.context is not None and context is not None else None
        match command.event:
            case stored.ExecutionStarted(input=None) as retry:
                settings: dict[str, Any] = {
                    "by": retry.by,
                    "reason": retry.reason,
                    "limits": retry.agent.limits if "limits" in retry.overrides else None,
                    "error_policy": retry.agent.error_policy if "error_policy" in retry.overrides else None,
                    "key": retry.key,
                }
                is_later = retry.worker is None
                await (session.requeue(**settings) if is_later else session.retry(agent, context=said, **settings))
            case stored.ExecutionStarted(input=Message() as given, by=by, key=key, worker=worker) as started:
                external = [ExternalTool(spec=spec) for spec in started.external_tools]
                began, history, self._began, self._history = self._began, self._history, None, ()
                given = with_files(given, _without_bytes)
                if began is None and not command.metadata:
                    # The same words may have been said before, and are not to be taken for the same command.
                    say = session.post if worker is None else session.send
                    await say(agent, given, by=by, key=key, context=said, external_tools=external)
                    return
                parent = {"parent": began.parent} if began is not None and began.parent is not None else {}
                if parent:  # the run above lent it what it had left
                    agent = replace(agent, limits=command.event.agent.limits)
                begin: Any = self.trail.start if worker is None else self.trail.run
                await begin(
                    agent,
                    given,
                    session=self._session,
                    by=by,
                    key=key,
                    context=said,
                    metadata=dict(command.metadata),
                    history=history,
                    external_tools=external,
                    on_commit=self._on_commit,
                    **parent,
                )
            case stored.SessionForked() as fork:
                self._began, self._history = None, ()
                await self.trail.session(fork.source).fork(
                    at=fork.version,
                    session=self._session,
                    name=fork.name,
                    by=fork.by,
                    reason=fork.reason,
                    metadata=dict(fork.metadata),
                )
            case stored.ExecutionResumed(limits=limits, error_policy=policy, by=by):
                await session.resume(agent, limits=limits, error_policy=policy, by=by, context=said)
            case stored.MessagesAppended(messages=messages, by=by, key=key):
                # To say something and go on is to post it and to resume, which is another command of the recording.
                await session.post(agent, with_files(messages[0], _without_bytes), by=by, key=key)
            case stored.PauseRequested(by=by, reason=reason, key=key):
                await session.pause(by=by, reason=reason, key=key)
            case stored.PauseLifted(by=by, reason=reason, key=key):
                await session.unpause(by=by, reason=reason, key=key)
            case stored.StopRequested(by=by, reason=reason, key=key):
                await session.stop(by=by, reason=reason, key=key)
            case stored.ApprovalGranted(approval_id=approval, by=by, reason=reason, arguments=arguments, key=key):
                await session.approve(approval, by=by, reason=reason, arguments=arguments, key=key)
            case stored.ApprovalDenied(approval_id=approval, by=by, reason=reason, key=key):
                await session.deny(approval, by=by, reason=reason, key=key)
            case stored.ToolExecutionCompleted(result=result, settled_by=str(by), settled_reason=reason, key=key) if (
                command.answers
            ):
                await session.answer(effect_id, instead=result, by=by, reason=reason, key=key)
            case stored.ToolExecutionFailed(error=error, settled_by=str(by), settled_reason=reason, key=key) if (
                command.answers
            ):
                await session.answer(effect_id, error=error.message, by=by, reason=reason, key=key)
            case stored.ToolExecutionCompleted(result=result, settled_by=str(by), settled_reason=reason):
                await session.settle(effect_id, "completed", by=by, result=result, reason=reason)
            case stored.ToolExecutionFailed(error=error, settled_by=str(by), settled_reason=reason):
                await session.settle(effect_id, "failed", by=by, message=error.message, reason=reason)
            case stored.WaitEnded(reason="rerun" | "tell" as verdict, by=str(by), settled_reason=reason):
                await session.settle(effect_id, verdict, by=by, reason=reason)
            case event:
                raise AssertionError(f"{event.TYPE} is no command")

    def _draw(self) -> float:
        """Return what was drawn for this retry, and the middle where a replay goes on beyond its recording."""
        return next(self._drawn, 0.5)

    def _on_commit(self, records: Sequence[Recorded[stored.AgentEvent]]) -> None:
        for record in records:
            match record.event:
                case (
                    stored.WaitStarted(kind="retry" | "tool_retry", until=int(until))
                    | stored.ToolRetryScheduled(due_at=until)
                ):
                    self._clock.reach(until)
                case event:
                    self._ended_calls += ended_by_itself(event)

    async def _until_stored(self, calls: int) -> None:
        try:
            async with asyncio.timeout(_LONGEST_WAIT_FOR_A_COMMIT):
                while self._ended_calls < calls:
                    await asyncio.sleep(0.001)
        except TimeoutError:
            so_far = f"{calls} tool calls had ended when a recorded one was cut off, and {self._ended_calls} have now"
            raise ReplayMismatch(f"session {self._session!r} runs otherwise: {so_far}") from None


async def _store_past(store: EventStore, recording: Recording) -> None:
    """Store the sessions that a fork was forked from, up to where it was. A session that is no fork has no past."""
    own: list[Recorded[stored.AgentEvent]] = []
    for record in recording.records:
        if isinstance(fork := record.event, stored.SessionForked) and own:
            digest = await _append(store, fork.source, own)
            own, record = [], structs.replace(record, event=structs.replace(fork, digest=digest))
        own.append(record)


async def _append(store: EventStore, session: str, records: Sequence[Recorded[stored.AgentEvent]]) -> str:
    """Return the digest of what is stored. Of the commit in which a fork leaves, a recording has the first events."""
    head, stream = EMPTY_STREAM, stream_of(checked_session_id(session))
    for commit, together in groupby(records, key=lambda record: record.head or _UNKNOWN):
        events = tuple((record.at, record.event) for record in together)
        head = await store.append(stream, head, Commit(commit, events))
    return head.digest.hex()


def _without_bytes(part: FilePart) -> File:
    """Return a file as it is given once more. A recording has no bytes, and no model is shown any."""
    return File.of(part, b"")
