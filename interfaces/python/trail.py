"""`Steptrail`: one store and the sessions in it, for a service that embeds the library."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, cast, overload

from msgspec.structs import replace

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import STREAM_PREFIX, checked_session_id
from steptrail.domain.errors import ConfigurationError, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.loading import loading
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.infrastructure.fleet.opening import engine_of
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.tools.external import ExternalTool
from steptrail.interfaces.python.asked import Asked
from steptrail.interfaces.python.auditor import Auditor
from steptrail.interfaces.python.eraser import Eraser
from steptrail.interfaces.python.flow_or_agent import an_agent, is_flow
from steptrail.interfaces.python.handle import AnyHandle, Handle
from steptrail.interfaces.python.has_workers import HasWorkers
from steptrail.interfaces.python.listeners import HasListeners, Listeners
from steptrail.interfaces.python.naming import stream_beginning, stream_named
from steptrail.interfaces.python.opening import check_opening, checked_projections, refuse_settings_of_addresses
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.agent import Agent, AnyAgent
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.type_variables import ContextT, OutputT
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.closing import close_all
from steptrail.runtime.kernel.engine import Engine
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.run_stream import RunStream
from steptrail.runtime.kernel.thread_calls import beside_the_loop
from steptrail.runtime.kernel.waking import Waking

if TYPE_CHECKING:
    from steptrail.domain.flow.envelope import Artifact
    from steptrail.domain.flow.events import FlowEvent
    from steptrail.domain.flow.options import RunOptions
    from steptrail.infrastructure.telemetry.live import LiveSpans
    from steptrail.infrastructure.telemetry.telemetry import Telemetry
    from steptrail.interfaces.python.flow import Flow
    from steptrail.interfaces.python.sync import SyncSteptrail
    from steptrail.interfaces.python.views import TrailViews
    from steptrail.projections.kernel.projection import Projection
    from steptrail.runtime.flow.kind import OnFlowCommit
    from steptrail.runtime.flow.result import FlowResult
    from steptrail.runtime.flow.workflow import BuiltWorkflow


class Steptrail(Auditor, Eraser, HasListeners, HasWorkers, AbstractAsyncContextManager["Steptrail"]):
    """Runs agents on one event store. Made by `open`; close it, or use it in `async with`."""

    def __init__(self, environment: Environment) -> None:
        if not isinstance(environment, Environment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("a trail is opened by its address: `Steptrail.open('sqlite:///runs.db')`")
        super().__init__(Listeners())
        waking = environment.waking or Waking(environment.store, environment.clock)
        self._env = replace(environment, observer=self._listeners, waking=waking)
        self._waking, self._url, self._workers = waking, "", []
        self._is_closed = False
        self._views: TrailViews | None = None
        self._making_views = Lock()
        self._projections: Sequence[Projection[Any]] = ()
        self._telemetry: Telemetry | None = None
        self._live_spans: LiveSpans | None = None

    @classmethod
    def open(
        cls,
        store: str | EventStore = "sqlite:///steptrail.db",
        *,
        durability: Durability = "full",
        busy_timeout: float = 5.0,
        create: bool = True,
        read_only: bool = False,
        live: bool = False,
        clock: Clock | None = None,
        telemetry: "Telemetry | None" = None,
        projections: "Sequence[Projection[Any]]" = (),
        engine: Engine | str | None = None,
    ) -> Self:
        """Open a store by its address, or take a store of your own, which is closed with the trail.

        An address is `sqlite:///file.db`, `sqlite:////absolute/file.db`, `sqlite:///:memory:`, or, with the extra
        `postgres`, `postgresql://user@host/database`; the first four settings are for it.

        `durability` is `full` (each commit has reached the disk) or `normal` (it survives a killed process; a power cut
        may lose all since the last checkpoint of a SQLite file, or the last moments of a server, and unsafe effects of
        what is lost happen again). `busy_timeout` is in seconds. `create=False` refuses a store that is not there.
        With `live` models are asked to stream in every run, so that who follows a session later sees the reply that is
        being written from its beginning; without it, in runs that are watched or followed when the model is called.
        `clock` stands in for the clock of the computer, in tests: see `steptrail.testing.ManualClock`.
        `telemetry` sends spans of the runs of this process: see `steptrail.telemetry.Telemetry`.
        `projections` are read models of your own, which `views` keeps beside ours: see `steptrail.projections`.
        `engine` is told of what this trail makes due, and wakes the workers of a fleet: `"procrastinate"` in the
        database of the store, or an engine of `steptrail.fleet`; see `work`.
        Raises a `StoreUnavailable` that says what is wrong, and `ConfigurationError` for what cannot be meant; nothing
        is changed then, and nothing is open.
        """
        check_opening(store, live, clock, telemetry)
        url = store if isinstance(store, str) else ""
        waker, own = engine_of(engine, url), checked_projections(projections)
        if isinstance(store, str):
            opened: EventStore = open_store(
                store, durability=durability, busy_timeout=busy_timeout, create=create, read_only=read_only
            )
        else:
            refuse_settings_of_addresses(durability, busy_timeout, create=create, read_only=read_only)
            opened = store
        # A store in front of one of ours may hand on its bus.
        fanout = LiveFanout(always=live, bus=getattr(opened, "live_bus", None))
        trail = cls(Environment(store=opened, fanout=fanout, clock=clock or SystemClock()))
        trail._projections = own
        trail._url = url
        if waker is not None:
            trail._waking.use(waker)
        if telemetry is not None:
            trail._telemetry, trail._live_spans = telemetry, telemetry.begin(opened, trail._lags, trail._fleet_here)
            trail.listeners.on_commits(trail._live_spans.committed)
        return trail

    @staticmethod
    def open_sync(
        store: str | EventStore = "sqlite:///steptrail.db",
        *,
        durability: Durability = "full",
        clock: Clock | None = None,
        telemetry: "Telemetry | None" = None,
        projections: "Sequence[Projection[Any]]" = (),
        engine: str | None = None,
    ) -> "SyncSteptrail":
        """Open the blocking twin, which has the same methods but `stream` and `work`, on a loop of its own."""
        from steptrail.interfaces.python.sync import SyncSteptrail

        settings: dict[str, Any] = {"durability": durability, "clock": clock, "telemetry": telemetry, "engine": engine}
        return SyncSteptrail(lambda: Steptrail.open(store, projections=projections, **settings))

    @property
    def store(self) -> EventStore:
        """The event store."""
        return self._env.store

    @property
    def clock(self) -> Clock:
        """The clock by which waits are over and questions expire."""
        return self._env.clock

    @property
    def views(self) -> "TrailViews":
        """The read models of the store, which count its runs, and can be asked in SQL."""
        with self._making_views:
            if self._views is None:
                with loading("the read models"):
                    from steptrail.interfaces.python.views import TrailViews
                    from steptrail.interfaces.python.views_of_runs import views_of_runs

                store, own, clock = self._env.store, self._projections, self._env.clock
                self._views = TrailViews(lambda: views_of_runs(store, own, clock), store, clock.utc)
            return self._views

    @overload
    async def run(
        self,
        agent: Agent[OutputT, ContextT],
        input: str | Message,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: ContextT | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        external_tools: Sequence[ExternalTool] = (),
        new: bool = False,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> RunResult[OutputT]: ...
    @overload
    async def run(
        self,
        agent: "BuiltWorkflow",
        input: object = None,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: object = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        new: bool = False,
        options: "RunOptions | None" = None,
        vars: Mapping[str, object] | None = None,
        messages: Sequence[Message] = (),
        artifacts: "Sequence[Artifact]" = (),
        on_commit: "OnFlowCommit | None" = None,
        on_update: OnUpdate | None = None,
    ) -> "FlowResult": ...
    async def run(
        self,
        agent: "AnyAgent | BuiltWorkflow",
        input: Any = None,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: Any = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        external_tools: Sequence[ExternalTool] = (),
        new: bool = False,
        on_commit: "OnCommit | OnFlowCommit | None" = None,
        on_update: OnUpdate | None = None,
        options: "RunOptions | None" = None,
        vars: Mapping[str, object] | None = None,  # noqa: A002 - the public name
        messages: Sequence[Message] = (),
        artifacts: "Sequence[Artifact]" = (),
    ) -> Any:
        """Have an input answered in a session, and return where that ended, whatever the ending.

        `session` is the session's id; without it a `key` stands for a session of its own, and without either a new one
        is made. Running the same command again is safe, also after a crash: an unfinished execution with this input is
        gone on with, and when the session's newest input was this one, its result is returned, `stored`. Any other
        input begins the next execution. With a `key` the same holds over the whole life of the session, not for the
        newest input alone, whatever agent comes with it, and the same words under another key are another command. A
        retry counts as the execution that it retries. To say something in a conversation, also the same words twice,
        `send` it.

        `context` is what there is to say of the run, of the type that the agent declares; it is stored, and belongs to
        the input: the same words with another context are another command. Without one, the session keeps the last.
        A workflow is run in the same way: `input` is any JSON, `vars`, `messages` and `artifacts` are what it begins
        with, and `options` hold in place of its own. All of these but the options are its input, and so is its
        `context`, any JSON too: a run that is given none has none. The result is a `FlowResult`.

        `by` is the name of the asking person. The session has the entries of `metadata` from where an execution is
        begun for this input; a command that comes again leaves them as they are. `history` is a conversation that was
        held elsewhere, such as the messages of another state: a new session begins with it. `external_tools` are tools
        without a body that the agent has for this run alone, such as those of a front end. `new` begins a session and
        takes no other. `on_commit` is told of the events that this process stores, `on_update` of the live updates
        between them: text as the model writes it, the progress of tools. Raises `ConfigurationError` for a context that
        does not fit or is missing, `CommandRejected` while the session
        answers another input, for a key that came with another one, and when the session exists for a `history` and for
        an input that is to be `new`; `SessionBusy` while another process runs it, and store errors.
        """
        asked = Asked(
            input,
            session,
            by,
            key,
            context,
            metadata,
            parent,
            new,
            history,
            options,
            vars,
            messages,
            artifacts,
            external_tools,
        )
        if is_flow(agent):
            from steptrail.interfaces.python.running_flows import run_flow

            return await run_flow(self._env, agent, asked, cast("OnFlowCommit | None", on_commit), on_update)
        control = SessionControl(self._env, asked.session_id(), cast("OnCommit | None", on_commit), on_update)
        given = an_agent(agent)
        return await control.run(given, await asked.of_agent(given, self._env.worker))

    @overload
    async def start(
        self,
        agent: Agent[Any, ContextT],
        input: str | Message,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: ContextT | None = None,
        metadata: dict[str, JsonValue] | None = None,
        history: Sequence[Message] = (),
        external_tools: Sequence[ExternalTool] = (),
        new: bool = False,
        cause: str | None = None,
        on_commit: OnCommit | None = None,
    ) -> Session: ...
    @overload
    async def start(
        self,
        agent: "BuiltWorkflow",
        input: object = None,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: object = None,
        metadata: dict[str, JsonValue] | None = None,
        new: bool = False,
        options: "RunOptions | None" = None,
        vars: Mapping[str, object] | None = None,
        messages: Sequence[Message] = (),
        artifacts: "Sequence[Artifact]" = (),
        on_commit: "OnFlowCommit | None" = None,
    ) -> "Flow": ...
    async def start(
        self,
        agent: "AnyAgent | BuiltWorkflow",
        input: Any = None,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: Any = None,
        metadata: dict[str, JsonValue] | None = None,
        history: Sequence[Message] = (),
        external_tools: Sequence[ExternalTool] = (),
        new: bool = False,
        cause: str | None = None,
        on_commit: "OnCommit | OnFlowCommit | None" = None,
        options: "RunOptions | None" = None,
        vars: Mapping[str, object] | None = None,  # noqa: A002 - the public name
        messages: Sequence[Message] = (),
        artifacts: "Sequence[Artifact]" = (),
    ) -> Any:
        """Store that an input is to be answered, and return its session at once: nothing is run here.

        The session is `pending` and due, and a process with `work` begins with it. All else is as in `run`, and to
        start the same again is safe: an input that the session has, or had under this `key`, is not started twice.
        `run` with the same input answers a session that was started. `cause` is as in `post` of a session, for agents.
        `on_commit` is told of the events that this call stores. Raises `CommandRejected` while the session answers
        another input, or this one without this key, for a key that came with another input, and, when the session
        exists, for a `history` and for an input that is to be `new`.
        """
        asked = Asked(
            input,
            session,
            by,
            key,
            context,
            metadata,
            None,
            new,
            history,
            options,
            vars,
            messages,
            artifacts,
            external_tools,
            cause,
        )
        if is_flow(agent):
            from steptrail.interfaces.python.running_flows import start_flow

            return await start_flow(self._env, agent, asked, cast("OnFlowCommit | None", on_commit))
        chosen, given = asked.session_id(), an_agent(agent)
        control = SessionControl(self._env, chosen, cast("OnCommit | None", on_commit))
        await control.start(given, await asked.of_agent(given, None))
        return self.session(chosen)

    @overload
    def stream(
        self,
        agent: Agent[OutputT, ContextT],
        input: str | Message,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: ContextT | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        external_tools: Sequence[ExternalTool] = (),
        new: bool = False,
    ) -> RunStream[AgentEvent, RunResult[OutputT]]: ...
    @overload
    def stream(
        self,
        agent: "BuiltWorkflow",
        input: object = None,
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        context: object = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        new: bool = False,
        options: "RunOptions | None" = None,
        vars: Mapping[str, object] | None = None,
        messages: Sequence[Message] = (),
        artifacts: "Sequence[Artifact]" = (),
    ) -> "RunStream[FlowEvent, FlowResult]": ...
    def stream(
        self,
        agent: "AnyAgent | BuiltWorkflow",
        input: Any = None,  # noqa: A002 - the public name
        **given: Any,
    ) -> RunStream[Any, Any]:
        """Do what `run` does, with the same arguments, and show it while it is done: see `RunStream`.

        It is told of events and updates itself, so it takes neither `on_commit` nor `on_update`. Raises
        `ConfigurationError` for these.
        """
        if taken := sorted(given.keys() & {"on_commit", "on_update"}):
            raise ConfigurationError(f"a stream hands out what happens, so it takes no `{taken[0]}`: iterate over it")
        run: Any = self.run
        return RunStream(
            lambda on_commit, on_update: run(agent, input, on_commit=on_commit, on_update=on_update, **given)
        )

    def session(
        self, session_id: str, *, on_commit: OnCommit | None = None, on_update: OnUpdate | None = None
    ) -> Session:
        """Return a handle on a session; it is not looked up before it is used."""
        return Session(self._env, checked_session_id(session_id), on_commit, on_update)

    def flow(
        self, flow_id: str, *, on_commit: "OnFlowCommit | None" = None, on_update: OnUpdate | None = None
    ) -> "Flow":
        """Return a handle on the runs of a workflow in one stream; it is not looked up before it is used."""
        from steptrail.interfaces.python.flow import Flow

        return Flow(self._env, flow_id, on_commit, on_update)

    async def find(self, prefix: str) -> Session:
        """Return the session of an agent whose id is, or uniquely begins with, `prefix`.

        Raises `SessionNotFound` or `AmbiguousId`.
        """
        return self.session(id_of(await stream_beginning(self._env.store, prefix, prefix=STREAM_PREFIX)))

    def handle(self, name: str) -> AnyHandle:
        """Return a handle on a stream of any kind, by its name: `flow:order-7`, or the id of an agent's session.

        It is not looked up before it is used.
        """
        stream = stream_named(name)
        if stream.startswith(STREAM_PREFIX):
            return self.session(id_of(stream))
        if stream.startswith("flow:"):
            return self.flow(id_of(stream))
        return Handle(self._env, stream)

    async def find_any(self, prefix: str) -> AnyHandle:
        """Return the handle of the stream, of whatever kind, whose name is, or uniquely begins with, `prefix`.

        Raises `SessionNotFound` or `AmbiguousId`.
        """
        return self.handle(stream_name(await stream_beginning(self._env.store, prefix)))

    async def close(self) -> None:
        """Pause what runs through this trail, close the store, end its subscriptions, and send what waits of telemetry.

        Who waits for such a run gets `StoreUnavailable`; nobody asked for the pause, so the run stays due. Safe to call
        twice.
        """
        self._is_closed = True
        self._env.fanout.close()
        await close_all([self._close])

    async def _close(self) -> None:
        telemetry, self._telemetry = self._telemetry, None
        async with AsyncExitStack() as rest:  # each is closed, whatever becomes of those before it
            databases = [self._env.store.close] if self._views is None else [self._env.store.close, self._views.aclose]
            rest.push_async_callback(close_all, databases)
            if telemetry is not None and self._live_spans is not None:
                rest.push_async_callback(beside_the_loop, telemetry.close, name="steptrail-telemetry")
                rest.push_async_callback(self._live_spans.aclose)
            rest.push_async_callback(self._waking.aclose)
            await self._env.at_work.cut_off()

    def __del__(self) -> None:
        """Warn of a trail that was opened by its address and that nobody closed: its thread and files stay."""
        if getattr(self, "_is_closed", True) or not self._url or sys.is_finalizing():
            return
        said = "a trail was dropped without being closed: `await trail.close()`, or use it in `async with`"
        warnings.warn(said, ResourceWarning, stacklevel=2, source=self)

    async def _lags(self) -> Mapping[str, int]:
        return {each.name: each.lag for each in await self.views.status()}

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        await self.close()
