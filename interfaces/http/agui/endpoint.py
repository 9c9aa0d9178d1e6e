"""The endpoint that a front end of AG-UI posts to: a run as Server-Sent Events.

The thread is the session. What the request asks for is stored, and a worker does it, whether or not the client stays;
the answer follows the session, from wherever it stands, until it rests.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import (
    CommandRejected,
    ConfigurationError,
    NotStorable,
    SessionBusy,
    SessionNotFound,
    StoredContextInvalid,
    StoreError,
)
from steptrail.domain.kernel.given import a_kind_of, a_time
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.http.agui.branches import Branches
from steptrail.interfaces.http.agui.config import AguiCaller, AguiConfig, require_agui
from steptrail.interfaces.http.agui.door import Authenticate, Authorize, Door
from steptrail.interfaces.http.agui.fold import AguiFold
from steptrail.interfaces.http.agui.reading import RequestRefused, Unsaid
from steptrail.interfaces.http.agui.requests import requested
from steptrail.interfaces.http.agui.watching import put_together, watched
from steptrail.interfaces.http.agui.work import EndpointWork
from steptrail.interfaces.http.heartbeats import with_beats
from steptrail.interfaces.http.sse import End, event_source
from steptrail.interfaces.python.flow_or_agent import is_flow
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.kernel.closing import Closing
from steptrail.runtime.kernel.log_raised import log_raised

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

_log = logging.getLogger("steptrail")

_STANDARD = AguiConfig()
_PATIENCE_SECONDS, _LOOK_SECONDS = 5.0, 0.05
"""For how long, and how often, to look again at a thread that somebody else has just begun to work on."""
_BEAT = ": \n\n"
"""A comment, which clients pass over, wherever a stream is silent."""


class _LookAgain(Exception):
    """Somebody else was faster: what is to be said is said to the thread as it is now."""


class AguiApp(Closing):
    """An ASGI application with one endpoint, at whatever path it is mounted. Made by `agui_app`.

    Served by itself it begins and ends with the server. Mounted in another application it is to be used in
    `async with`, inside the trail's: otherwise it takes up what a crash left only when the first request comes, and
    `aclose` is to be awaited before the trail is closed.
    """

    def __init__(
        self, trail: Steptrail, agent: AnyAgent, door: Door, config: AguiConfig, *, work: EndpointWork, heartbeat: float
    ) -> None:
        self._trail, self._agent, self._door = trail, agent, door
        self._config, self._work, self._heartbeat = config, work, heartbeat
        self._branches = Branches(trail, config)

    async def __aenter__(self) -> Self:
        """Begin to work, and return self. Raises `StoreUnavailable` when the engine that wakes the worker is away."""
        await self._work.open()
        return self

    async def aclose(self) -> None:
        """End the streams and drain: what is in flight may end in time, and other workers go on. Safe to call twice."""
        await self._work.close()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve a request."""
        from starlette.exceptions import HTTPException
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse
        from starlette.websockets import WebSocketClose

        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] == "websocket":  # AG-UI is spoken over HTTP: before it is accepted, this is a 403
            await WebSocketClose()(scope, receive, send)
            return
        answer: Response
        try:
            answer = await self._answer(scope, receive)
        except RequestRefused as refused:
            answer = JSONResponse({"error": str(refused)}, status_code=refused.status)
        except HTTPException as error:  # of the functions of the service, which so give an answer of their own
            answer = JSONResponse({"error": error.detail}, error.status_code, error.headers)
        except ClientDisconnect:
            return
        except Exception as error:  # also of the functions of the service, which say who asks
            log_raised(_log, error, "a request of AG-UI could not be answered", level=logging.ERROR)
            answer = JSONResponse({"error": "the request could not be answered; the log says why"}, status_code=500)
        await answer(scope, receive, send)

    async def _answer(self, scope: "Scope", receive: "Receive") -> "Response":
        request, given = await self._door.opened(scope, receive)
        if self._work.is_closing:
            raise RequestRefused(503, "the server is about to end: connect again")
        until, stream = asyncio.get_running_loop().time() + _PATIENCE_SECONDS, stream_of(SessionId(given.thread_id))
        try:
            await self._work.begin()
            while asyncio.get_running_loop().time() < until:
                was_there = await self._trail.store.version(stream)
                # Asked before each look, so that no thread is read for somebody who may not see it.
                caller = await self._door.caller(request, given)
                before = await self._look(given.thread_id)
                try:
                    if before.version and not was_there:
                        raise _LookAgain  # it began meanwhile, and may be another's
                    return await self._begin(given, before, caller)
                except _LookAgain:
                    await asyncio.sleep(_LOOK_SECONDS)
        except (CommandRejected, StoredContextInvalid) as error:
            raise RequestRefused(409, str(error)) from error
        except (ConfigurationError, NotStorable) as error:
            raise RequestRefused(422, str(error)) from error
        except SessionNotFound:
            raise RequestRefused(404, "there is no such thread any more") from None
        except StoreError as error:
            _log.warning("a request of AG-UI was refused, because the store or the engine is away: %s", error)
            raise RequestRefused(503, f"the store cannot be used now ({type(error).__name__})") from error
        raise RequestRefused(409, "this thread is being worked on: send it again")

    async def _look(self, thread: str) -> AgentState:
        try:
            return await self._trail.session(thread).state()
        except SessionNotFound:
            return initial(thread)

    async def _begin(self, given: "RunAgentInput", before: AgentState, caller: AguiCaller) -> "Response":
        """Store what is asked for, and return the answer that follows it."""
        is_known = before.phase is not Phase.ABSENT
        says: Sequence[Unsaid] = ()
        if is_known:
            before, says = await self._branches.shown(given, before, caller)
        state, store, session = before, self._trail.store, self._trail.session(before.agent_id)
        wanted = await requested(
            self._trail, self._agent, before, given, caller, self._config, says=says, most=self._door.max_history
        )
        if wanted is not None:
            first = list[Recorded[AgentEvent]]()
            try:
                await wanted.store(first.extend)
            except (SessionBusy, CommandRejected) as error:
                if isinstance(error, CommandRejected) and await store.version(session.stream_id) == before.version:
                    raise
                raise _LookAgain from error  # the refusal is about a state that has passed
            if not is_known and not first:
                raise _LookAgain  # this was asked before, by whomever: it is not shown unasked
            if wanted.says:
                contiguous = bool(first) and first[0].version == before.version + 1
                state = evolve_all(before, first) if contiguous else await session.state()
        make = partial(
            AguiFold,
            state,
            run_id=given.run_id,
            thread_id=given.thread_id,
            config=self._config,
            client=given.messages,
            protocol_version=given.protocol_version,
            since=before,
        )
        fold = await put_together(make, state)

        async def stream(end: End) -> AsyncGenerator[bytes]:
            run = watched(self._trail, fold, self._work, end, joins=is_known)
            async for told in with_beats(run, self._heartbeat):
                yield (_BEAT if told is None else told).encode()

        return event_source(stream)

    async def _lifespan(self, receive: "Receive", send: "Send") -> None:
        await receive()
        try:
            await self._work.open()
        except StoreError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})


def agui_app(
    trail: Steptrail,
    agent: AnyAgent,
    *,
    authorize: Authorize,
    authenticate: "Authenticate | None" = None,
    config: AguiConfig = _STANDARD,
    concurrency: int = 64,
    grace: float = 10.0,
    max_body_bytes: int = 10_000_000,
    max_history: int = 1_000,
    heartbeat_seconds: float = 15.0,
) -> AguiApp:
    """Return the ASGI application through which AG-UI clients run `agent` in the sessions of `trail`.

    `authorize` is asked for each request, may be a coroutine function, and returns the caller, or None to refuse the
    request, as does anything else: a thread's id is no secret. It is asked with the body, which names the thread.
    `authenticate`, where it is given, is asked before, with the headers alone: without its `True` no byte of the body
    is read. `config` says which parts are shown.

    A request may have `max_body_bytes`, counted while they come, and a new thread begins with at most `max_history`
    messages. A comment goes out when a stream was silent for `heartbeat_seconds`.

    A worker of its own carries on whatever is due for this agent in the store, also what another process began, at most
    `concurrency` sessions at once; with 0 there is none, for a service that has `trail.work` of its own. At a shutdown
    it drains, and what is in flight may end within `grace` seconds. Raises `MissingExtra` without the packages of the
    extra `agui`, and `ConfigurationError` for settings with which every request would fail and for a workflow.
    """
    if is_flow(agent):
        hint = "show its runs with `steptrail.broadcasting.asgi.event_stream`"
        raise ConfigurationError(f"AG-UI is a conversation with an agent, and a workflow holds none: {hint}")
    require_agui("agui_app", "sse-starlette", "starlette")
    door = Door(authorize=authorize, authenticate=authenticate, max_body_bytes=max_body_bytes, max_history=max_history)
    work = EndpointWork(a_kind_of(Steptrail, trail, "`trail`"), agent, concurrency=concurrency, grace=grace)
    heartbeat = a_time(heartbeat_seconds, "heartbeat_seconds")
    return AguiApp(trail, agent, door, a_kind_of(AguiConfig, config, "config"), work=work, heartbeat=heartbeat)
