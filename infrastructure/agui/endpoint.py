"""The endpoint that a front end of AG-UI posts to: a run as Server-Sent Events.

The thread is the session. What the request asks for is begun in the background and goes on without the client; the
answer follows the session, from wherever it stands, until it rests.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.ids import session_id
from steptrail.domain.errors import (
    CommandRejected,
    ConfigurationError,
    SessionBusy,
    SessionNotFound,
    StoreError,
)
from steptrail.infrastructure.agui.config import AguiCaller, AguiConfig, require_agui
from steptrail.infrastructure.agui.fold import AguiFold
from steptrail.infrastructure.agui.reading import Refused, refuse_what_is_not_supported
from steptrail.infrastructure.agui.requests import Requested, requested
from steptrail.infrastructure.agui.runs import Runs
from steptrail.infrastructure.agui.watching import watched
from steptrail.infrastructure.trail import Steptrail
from steptrail.runtime.agent import Agent

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

__all__ = ["AguiApp", "Authorize", "agui_app"]

Authorize: TypeAlias = "Callable[[Request, RunAgentInput], AguiCaller | Awaitable[AguiCaller | None] | None]"
"""Says who a request comes from, or nothing when that one may not speak to the thread `input.thread_id`."""

_STANDARD = AguiConfig()


class AguiApp:
    """An ASGI application with one endpoint, at whatever path it is mounted. Made by `agui_app`.

    Served by itself it pauses its runs when the server ends; mounted in another application it has to be told: await
    `aclose` before the trail is closed.
    """

    def __init__(
        self, trail: Steptrail, agent: Agent, *, authorize: "Authorize", config: AguiConfig, grace: float
    ) -> None:
        self._trail, self._agent, self._authorize = trail, agent, authorize
        self._config, self._grace = config, grace
        self._runs = Runs(trail)

    async def aclose(self) -> None:
        """End the streams and pause the runs: within `grace` seconds what is in flight may end. Safe to call twice."""
        await self._runs.close(self._grace)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve a request."""
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse

        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ConfigurationError(f"AG-UI is spoken over HTTP, not {scope['type']}")
        request = Request(scope, receive)
        answer: Response
        try:
            answer = await self._answer(request)
        except Refused as refused:
            answer = JSONResponse({"error": str(refused)}, status_code=refused.status)
        except ClientDisconnect:
            return
        await answer(scope, receive, send)

    async def _answer(self, request: "Request") -> "Response":
        from starlette.responses import StreamingResponse

        if request.method != "POST":
            raise Refused(405, "post a RunAgentInput")
        given = _parsed(await request.body())
        try:
            session_id(given.thread_id)
        except ConfigurationError as error:
            raise Refused(422, f"the threadId is the session's id: {error}") from None
        said = self._authorize(request, given)
        caller = await said if inspect.isawaitable(said) else said
        if caller is None:
            raise Refused(403, "this thread is not yours")
        refuse_what_is_not_supported(given)
        try:
            asked = await self._begin(given, caller)
        except (CommandRejected, ConfigurationError) as error:
            raise Refused(409 if isinstance(error, CommandRejected) else 422, str(error)) from error
        except SessionBusy:
            raise Refused(409, "this thread is being worked on: connect again") from None
        except StoreError as error:
            raise Refused(503, f"the store cannot be used now ({type(error).__name__})") from error
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(asked, media_type="text/event-stream", headers=headers)

    async def _begin(self, given: "RunAgentInput", caller: AguiCaller) -> AsyncGenerator[str]:
        """Do what is asked for, and return the stream that follows it."""
        session = self._trail.session(given.thread_id)
        try:
            before, is_known = await session.state(), True
        except SessionNotFound:
            before, is_known = initial(given.thread_id), False
        wanted: Requested | None = await requested(self._trail, self._agent, before, given, caller, is_known=is_known)
        task, state = None, before
        if wanted is not None:
            try:
                task, first = await self._runs.begin(given.thread_id, wanted.work)
            except SessionBusy:
                first = ()  # another process is at it: it is followed
            if wanted.says:
                contiguous = bool(first) and first[0].version == before.version + 1
                state = evolve_all(before, first) if contiguous else await session.state()
        fold = partial(AguiFold, run_id=given.run_id, config=self._config, client=given.messages, since=before)
        return watched(self._trail, fold(state), task, self._runs.closing, joins=is_known)

    async def _lifespan(self, receive: "Receive", send: "Send") -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return


def agui_app(
    trail: Steptrail,
    agent: Agent,
    *,
    authorize: "Authorize",
    config: AguiConfig = _STANDARD,
    grace: float = 10.0,
) -> AguiApp:
    """Return the ASGI application through which AG-UI clients run `agent` in the sessions of `trail`.

    `authorize` is asked for each request, may be a coroutine function, and says whose it is, or nothing to refuse it: a
    thread's id is no secret. `config` says what is shown. `grace` is how many seconds a shutdown waits for what is in
    flight. Raises `MissingExtra` without the packages of the extra `agui`.
    """
    require_agui("agui_app", "starlette")
    return AguiApp(trail, agent, authorize=authorize, config=config, grace=grace)


def _parsed(body: bytes) -> "RunAgentInput":
    from ag_ui.core import RunAgentInput

    try:
        return RunAgentInput.model_validate_json(body)
    except ValidationError as error:
        # What was sent is not repeated: it may be anything, and errors are logged.
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False)[:3]]
        raise Refused(422, f"this is no RunAgentInput: {'; '.join(wrong)}") from None
