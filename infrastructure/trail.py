"""`Steptrail`: one store and the sessions in it, for a service that embeds the library."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, cast

from pydantic import JsonValue

from steptrail.domain.agent.commands import Approve, Deny, Fork, Settle, Verdict
from steptrail.domain.agent.config import Limits
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.agent.ids import STREAM_PREFIX, SessionId, is_session_id, session_id, session_of, stream_of
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import AmbiguousId, SessionNotFound, StoreUnavailable
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.record import Recorded
from steptrail.infrastructure.explaining import explained
from steptrail.infrastructure.listeners import Listened, Listeners
from steptrail.infrastructure.store.opening import Durability, open_store
from steptrail.infrastructure.tools.result import to_json_value
from steptrail.projections.explanation import Explanation
from steptrail.projections.runs import RunsProjection, RunSummary
from steptrail.projections.tree import RunTree, TreeProjection
from steptrail.runtime.agent import Agent
from steptrail.runtime.agent_journal import OnCommit, agent_records, load, load_history
from steptrail.runtime.control import Environment, SessionControl
from steptrail.runtime.follower import Follower
from steptrail.runtime.following import Following
from steptrail.runtime.given import a_message, an_agent
from steptrail.runtime.ids import new_id
from steptrail.runtime.keys import session_for_key
from steptrail.runtime.live import OnUpdate
from steptrail.runtime.live_feed import LiveFeed
from steptrail.runtime.ports import EventStore
from steptrail.runtime.result import RunResult
from steptrail.runtime.run_stream import RunStream
from steptrail.runtime.subscription import OnCorrupt, Subscription

if TYPE_CHECKING:
    from steptrail.infrastructure.sync import SyncSteptrail

__all__ = ["Session", "Steptrail"]


class Session:
    """A handle on one session, from any process. Holds nothing open."""

    def __init__(
        self,
        environment: Environment,
        agent_id: SessionId,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._env, self.agent_id = environment, agent_id
        self._control = SessionControl(environment, agent_id, on_commit, on_update)

    async def send(self, agent: Agent, text: str | Message, *, by: str = "user", key: str | None = None) -> RunResult:
        """Say something new, and run what follows from it; a session that does not exist yet is opened with it.

        A session at rest answers it in a new execution. While an execution is open it joins the conversation at the
        next boundary and keeps the run going; where another process runs it, this returns as soon as the message is
        stored, with the status `in_progress`. Of messages sent at the same moment none is lost: they are stored in the
        order of their commits. With a `key` the same message is said once, however often it is sent. Raises
        `CommandRejected` for a key that came with something else.
        """
        return await self._control.send(an_agent(agent), a_message(text), by=by, key=key)

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
        """Let a run that failed, met a limit or was stopped go on where it came to no answer.

        That is a new execution without an input: the model is shown the conversation as it stands, with the user's
        message once and the results of what was run, and counts begin at nothing. `limits` and `error_policy` hold for
        it in place of the agent's. `key` makes it safe to ask again: the same key is one retry. Whoever asks for what
        was retried, with its input or its key, gets what the newest retry ended with. Raises `SessionNotFound`,
        `CommandRejected` for a session that has answered or is not over, and `SessionBusy` for the second of two at
        once.
        """
        return await self._control.retry(
            an_agent(agent), by=by, reason=reason, limits=limits, error_policy=error_policy, key=key
        )

    async def resume(
        self,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        by: str = "user",
    ) -> RunResult:
        """Go on with the unfinished execution; see `SessionControl.resume`.

        A session that has finished is returned as it is (`retry` lets a failed one go on, `send` asks for more), and so
        is one that would only wait again.

        Raises `SessionNotFound`, `SessionBusy` while another process runs it, and with `strict` `CommandRejected` when
        the agent has changed.
        """
        resumed = self._control.resume(
            an_agent(agent), take_over=take_over, strict=strict, limits=limits, error_policy=error_policy, by=by
        )
        return RunResult(await resumed)

    def stream(
        self, agent: Agent, text: str | Message | None = None, *, by: str = "user", key: str | None = None
    ) -> RunStream:
        """Send `text`, or resume when there is none, and show what is done: see `RunStream`."""
        env, agent_id = self._env, self.agent_id

        async def work(on_commit: OnCommit, on_update: OnUpdate) -> RunResult:
            watched = Session(env, agent_id, on_commit, on_update)
            return await (watched.resume(agent, by=by) if text is None else watched.send(agent, text, by=by, key=key))

        return RunStream(work)

    async def pause(self, *, reason: str | None = None, by: str = "user", key: str | None = None) -> RunResult:
        """Pause at the next safe point. Raises `SessionNotFound`, and `CommandRejected` when nothing is open."""
        return RunResult(await self._control.pause(by=by, reason=reason, key=key))

    async def stop(self, *, by: str = "user", reason: str | None = None, key: str | None = None) -> RunResult:
        """Stop for good. Raises `SessionNotFound`, and `CommandRejected` when nothing is open."""
        return RunResult(await self._control.stop(by=by, reason=reason, key=key))

    async def settle(
        self,
        effect_id: str,
        verdict: Verdict,
        *,
        by: str = "user",
        result: JsonValue = None,
        message: str | None = None,
    ) -> RunResult:
        """Say what became of a parked call; the session goes on at the next `resume`.

        `completed` with the `result` the model is to see, `failed` with a `message`, `rerun` to run it again with the
        same effect id, `tell` to let the model know that nobody knows. Raises `SessionNotFound`, `CommandRejected` when
        no call with this effect id waits for a verdict, and `NotStorable` for a result that is not JSON.
        """
        said = to_json_value(result, "result")
        command = Settle(effect_id=effect_id, by=by, verdict=verdict, result=said, message=message)
        return RunResult(await self._control.answer(command))

    async def approve(
        self,
        approval_id: str,
        *,
        by: str,
        reason: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        digest: str | None = None,
        key: str | None = None,
    ) -> RunResult:
        """Say yes to a call that waits for approval; the session goes on at the next `resume`.

        `state.open_approvals` lists what is asked for. `arguments` replace the call's as a whole; their names must be
        the tool's, and their values are validated when it runs. With a `digest` the yes is to the arguments of that
        digest and no others. `key` makes it safe to say again. Raises `SessionNotFound`, `CommandRejected` when the
        arguments have other names, or when this approval is not open: it has been answered, has expired, or never was,
        and `NotStorable` for arguments that are not JSON.
        """
        command = Approve(
            approval_id=approval_id,
            by=by,
            at=self._env.clock.utc(),
            reason=reason,
            arguments=None if arguments is None else cast(dict[str, JsonValue], to_json_value(arguments, "arguments")),
            digest=digest,
            key=key,
        )
        return RunResult(await self._control.answer(command))

    async def deny(self, approval_id: str, *, by: str, reason: str | None = None, key: str | None = None) -> RunResult:
        """Say no to a call that waits for approval: it does not run, and the model is told by whom and why.

        Raises like `approve`.
        """
        command = Deny(approval_id=approval_id, by=by, at=self._env.clock.utc(), reason=reason, key=key)
        return RunResult(await self._control.answer(command))

    async def state(self, *, at: int | None = None) -> AgentState:
        """Return the state as it is stored, or as it was after `at` events. Raises `SessionNotFound`."""
        state, _ = await load(self._env.store, self.agent_id, at=at)
        if state.phase is Phase.ABSENT and at is None:
            raise SessionNotFound(self.agent_id)
        return state

    async def result(self) -> RunResult:
        """Return where the session stands."""
        return RunResult(await self.state())

    async def events(self, *, after: int = 0) -> Sequence[Recorded[AgentEvent]]:
        """Return the events after version `after`, oldest first."""
        stored = await self._env.store.read(stream_of(self.agent_id), after=after)
        return agent_records(stored.records)

    async def history(self, *, at: int | None = None) -> Sequence[Recorded[AgentEvent]]:
        """Return the events that the session is folded from, up to its version `at`.

        They are its own. For a fork those of the past that it shares come first, with the versions they have there.
        """
        return await load_history(self._env.store, self.agent_id, at=at)

    def follow(self, *, after: int = 0, forever: bool = False) -> Following:
        """Return the events after version `after`, then each that any process stores, until the session has ended.

        Between them come live updates of a run of this process, each in its place: never after the event that holds
        the whole. With `forever` it goes on with the executions to come. A paused or waiting session has not ended. A
        slow consumer holds up nobody: events wait in the store, and of live updates the oldest are dropped, which an
        `UpdatesLost` in their place says. Raises `SessionNotFound` when it is entered or first asked, and
        `ConfigurationError` for a negative `after`.
        """
        return Following(self._env.store, self.agent_id, self._env.feed, after=after, forever=forever)

    async def fork(
        self,
        *,
        at: int | None = None,
        session: str | None = None,
        name: str | None = None,
        by: str = "user",
        reason: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> "Session":
        """Open another session that goes on from this one's past, the first `at` events or all, and return it.

        The past is shared and not copied; whatever happens in one of the two, the other does not notice. Where an
        execution is open the fork is paused, and `resume` goes on with any agent. Requests to stop or pause, keys,
        approvals and waits do not come along. `session` is the new id, chosen when it is not given. Raises
        `SessionNotFound`, and `CommandRejected` when a step is open there, which is anywhere but after a
        `step.completed` or the end of an execution, or when the new session exists.
        """
        into = session_id(session or new_id("run"))
        command = Fork(by=by, name=name, reason=reason, metadata=metadata or {})
        await self._control.fork(into, command, at=at)
        return Session(self._env, into)

    async def why(self, *, execution: str | int | None = None) -> Explanation:
        """Explain why the session stopped, or why it has not, also when it is running, paused, waiting or crashed.

        It is about the newest execution, or the one of that id or number. Of a session that is damaged what comes
        before the damage is explained, and the damage is told. Raises `SessionNotFound`, and `ConfigurationError` for
        an execution that there is not.
        """
        now = self._env.clock.utc()
        return await explained(self._env.store, self.agent_id, now=now, execution=execution)


class Steptrail(Listened, AbstractAsyncContextManager["Steptrail"]):
    """Runs agents on one event store. Made by `open`; close it, or use it in `async with`."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(Listeners())
        self._env = replace(environment, observer=self._listeners)
        self._is_closed = False

    @classmethod
    def open(
        cls,
        url: str = "sqlite:///steptrail.db",
        *,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        create: bool = True,
        read_only: bool = False,
        live: bool = False,
    ) -> Self:
        """Open a store by its address.

        `sqlite:///file.db`, `sqlite:////absolute/file.db`, `sqlite:///:memory:`, or, with the extra `postgres`,
        `postgresql://user@host/database`.

        `durability` is `full` (each commit has reached the disk) or `normal` (it survives a killed process; a power cut
        may lose all since the last checkpoint of a SQLite file, or the last moments of a server, and unsafe effects of
        what is lost happen again). `busy_timeout` is in seconds. `create=False` refuses a store that is not there.
        With `live` models are asked to stream in every run, so that who follows a session later sees the reply that is
        being written from its beginning; without it, in runs that are watched or followed when the model is called.
        Raises a `StoreUnavailable` that says what is wrong; nothing is changed then.
        """
        store = open_store(url, durability=durability, busy_timeout=busy_timeout, create=create, read_only=read_only)
        return cls(Environment(store=store, feed=LiveFeed(always=live)))

    @staticmethod
    def open_sync(url: str = "sqlite:///steptrail.db", *, durability: Durability = "full") -> "SyncSteptrail":
        """Open the blocking twin, which has the same methods and runs them on a loop of its own."""
        from steptrail.infrastructure.sync import SyncSteptrail

        return SyncSteptrail(lambda: Steptrail.open(url, durability=durability))

    @property
    def store(self) -> EventStore:
        """The event store."""
        return self._env.store

    async def run(
        self,
        agent: Agent,
        input: str | Message,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        new: bool = False,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> RunResult:
        """See to it that an input is answered in a session, and return where that ended, whatever the ending.

        `session` is the session's id; without it a `key` stands for a session of its own, and without either a new one
        is made. Running the same command again is safe, also after a crash: an unfinished execution with this input is
        gone on with, and when the session's newest input was this one, its result is returned, `stored`. Any other
        input begins the next execution. With a `key` the same holds over the whole life of the session, not for the
        newest input alone, and the same words under another key are another command. A retry counts as the execution
        that it retries. To say something in a conversation, also the same words twice, `send` it.

        `by` says who asks. The session has the entries of `metadata` from where an execution is begun for this input;
        a command that comes again changes nothing. `history` is a conversation that was held elsewhere, such as the
        messages of another state: a new session begins with it. `new` begins a session and takes no other. `on_commit`
        is told of the events that this process stores, `on_update` of what can be seen between them: text as the model
        writes it, the progress of tools. Raises `CommandRejected` while the session answers another input, for a key
        that came with another one, and when the session exists for a `history` and for what is to be `new`;
        `SessionBusy` while another process runs it, and store errors.
        """
        chosen = session or (session_for_key(key) if key is not None else new_id("run"))
        control = SessionControl(self._env, session_id(chosen), on_commit, on_update)
        given, said = an_agent(agent), a_message(input)
        return await control.run(
            given, said, by=by, key=key, metadata=metadata, parent=parent, history=history, new=new
        )

    def stream(
        self,
        agent: Agent,
        input: str | Message,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
    ) -> RunStream:
        """Do what `run` does, and show it while it is done: see `RunStream`."""
        return RunStream(
            lambda on_commit, on_update: self.run(
                agent,
                input,
                session=session,
                by=by,
                key=key,
                metadata=metadata,
                parent=parent,
                history=history,
                on_commit=on_commit,
                on_update=on_update,
            )
        )

    def session(
        self, agent_id: str, *, on_commit: OnCommit | None = None, on_update: OnUpdate | None = None
    ) -> Session:
        """Return a handle on a session; it is not looked up before it is used."""
        return Session(self._env, session_id(agent_id), on_commit, on_update)

    async def find(self, prefix: str) -> Session:
        """Return the session whose id is, or uniquely begins with, `prefix`.

        Raises `SessionNotFound` or `AmbiguousId`.
        """
        if prefix and not is_session_id(prefix):
            raise SessionNotFound(prefix)  # no id begins like that, and not every store can be asked for it
        found = [stream.removeprefix(STREAM_PREFIX) for stream in await self._env.store.streams(STREAM_PREFIX + prefix)]
        if prefix in found:
            return self.session(prefix)
        if len(found) != 1:
            raise AmbiguousId(prefix, tuple(found)) if found else SessionNotFound(prefix)
        return self.session(found[0])

    async def runs(self, *, keep: Callable[[RunSummary], bool] | None = None) -> Sequence[RunSummary]:
        """Return a summary of every session, newest first, or of those that `keep` says to.

        A session with a record that cannot be read is there too, with its `damage`; the others are not affected.
        """
        projection = RunsProjection()
        async for _, stream, record in self._env.store.log(types=projection.types, on_corrupt=projection.mark_damaged):
            if stream.startswith(STREAM_PREFIX):
                projection.apply(stream.removeprefix(STREAM_PREFIX), record)
        return [summary for summary in projection.newest_first() if keep is None or keep(summary)]

    async def tree(self, agent_id: str) -> RunTree:
        """Return a session with every session that its tool calls ran, and what each was billed.

        One with a record that cannot be read says so in its `damage`. Raises `SessionNotFound`.
        """
        projection = TreeProjection(session_id(agent_id))
        async for _, stream, record in self._env.store.log(types=projection.types, on_corrupt=projection.mark_damaged):
            if stream.startswith(STREAM_PREFIX):
                projection.apply(session_of(stream), record)
        tree = projection.tree()
        if tree is None:
            raise SessionNotFound(agent_id)
        return tree

    def subscribe(
        self,
        after: int | Literal["now"] = 0,
        *,
        types: Sequence[str] = (),
        session: str | None = None,
        follow: bool = True,
        on_corrupt: OnCorrupt | None = None,
    ) -> Subscription:
        """Return the events of all sessions after position `after`, and then each that is stored, by any process.

        `"now"` leaves out what is stored before the subscription is entered with `async with`, or first asked. `types`
        are type names such as `ExecutionFinished.TYPE`, `session` is the id of one session, which need not exist yet.
        `follow=False` ends where the log ends. At a record that cannot be read the iteration raises `CorruptRecord`,
        or tells `on_corrupt` and goes on. At most 500 events wait for a slow consumer; the rest stays in the store.
        Closing the trail ends the iteration. Raises `ConfigurationError` for what cannot be meant, and
        `StoreUnavailable` when the trail is closed already.
        """
        if self._is_closed:
            raise StoreUnavailable("the trail is closed: open it again to subscribe")
        return Subscription(
            self._env.store,
            after=after,
            types=types,
            session=None if session is None else session_id(session),
            follow=follow,
            on_corrupt=on_corrupt,
            is_store_closed=lambda: self._is_closed,
        )

    def follower(
        self, name: str, *, types: Sequence[str] = (), wait: bool = False, on_corrupt: OnCorrupt | None = None
    ) -> Follower:
        """Return a subscription that has a name and goes on after what was kept under it, in whatever process.

        One is at work at a time: another one raises `FollowerBusy` where it is entered, or is to `wait` for its turn.
        `types` and `on_corrupt` are those of `subscribe`. Raises `ConfigurationError` for what cannot be meant, and
        `StoreUnavailable` when the trail is closed already.
        """
        if self._is_closed:
            raise StoreUnavailable("the trail is closed: open it again to follow")
        return Follower(
            self._env.store,
            name,
            types=types,
            wait=wait,
            on_corrupt=on_corrupt,
            is_store_closed=lambda: self._is_closed,
        )

    async def due(self) -> Sequence[RunSummary]:
        """Return the sessions that a `resume` would bring on now, the one that moved last first.

        Those whose wait is over, those that wait for a session below them that does not rest any more, and those that
        are in progress with no process running them.
        """
        now, rows = self._env.clock.utc(), await self.runs()
        resting = {row.agent_id for row in rows if row.status in {ExecutionStatus.WAITING, ExecutionStatus.PAUSED}}
        return [row for row in rows if await self._can_go_on(row, now, resting)]

    async def _can_go_on(self, row: RunSummary, now: int, resting: set[str]) -> bool:
        if row.status is ExecutionStatus.WAITING:
            is_over = row.waits_until is not None and row.waits_until <= now
            return is_over or (row.waits_for == "child" and not resting.issuperset(row.waits_on))
        in_progress = row.status is ExecutionStatus.IN_PROGRESS
        return in_progress and await self._env.store.is_leased(stream_of(session_id(row.agent_id))) is False

    async def close(self) -> None:
        """Close the store and end its subscriptions. Safe to call twice."""
        self._is_closed = True
        self._env.feed.close()
        await self._env.store.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        await self.close()
