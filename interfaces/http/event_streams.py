"""Messages about sessions and runs of workflows over HTTP: Server-Sent Events and a WebSocket, for any ASGI server.

    GET /sessions/{session}/events          Server-Sent Events, or a WebSocket: the messages from the beginning on
    GET /sessions/{session}/conversation    the stored conversation, to begin with and to reconcile with
    GET /flows/{flow}/events                the same of a run of a workflow
    GET /flows/{flow}/run                   the stored run: its nodes, questions and errors
    GET /sessions/{session}/files/{digest}  a file that the conversation shows, or, below /flows/{flow}, the run
    GET /steptrail.js                       the client for browsers that reads them, for anybody: it holds no data

A reader goes on with the header `Last-Event-ID`, which browsers send by themselves, or with `?after=`: the id of the
last message, or the `version` of the conversation or the run that it has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib import import_module
from importlib.resources import files
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.errors import ConfigurationError, MissingExtra, SessionNotFound, SteptrailError, StoreError
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.given import a_function, a_kind_of, a_row, a_text, a_time
from steptrail.domain.messages import FilePart
from steptrail.infrastructure.broadcast.transport import checked_broadcast_config
from steptrail.interfaces.http.heartbeats import with_beats
from steptrail.interfaces.http.session_messages import SessionMessages, place_after
from steptrail.interfaces.http.sse import End, event_source
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.conversation import ui_conversation
from steptrail.projections.ui.models import UiModel
from steptrail.runtime.kernel.files import ANYTHING, SHOWN_IMAGES, stored_file
from steptrail.runtime.kernel.log_raised import Seldom, log_raised

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

Authorize: TypeAlias = "Callable[[HTTPConnection, str], bool | Awaitable[bool]]"
"""Says whether a client may see a session: asked with the request and the session's id.

A run of a workflow has a name that no session has, `flow:order-7`.
"""

_GOING_AWAY = 1001
_FORBIDDEN = 1008
_MOST_HEARD = 65_536
"""Bytes that a WebSocket may say to us, who do not listen."""
_CLIENT = files("steptrail.interfaces.http") / "steptrail.js"
_log = logging.getLogger("steptrail")
_away = Seldom(_log)
"""Warns of a store that cannot be read: a thousand pages ask again every second until it can."""


def event_stream(
    trail: Steptrail,
    *,
    authorize: Authorize,
    config: BroadcastConfig | None = None,
    conversation: UiConfig | None = None,
    origins: Collection[str] = (),
    heartbeat_seconds: float = 15.0,
    retry_seconds: float = 2.0,
) -> "Starlette":
    """Return an application to mount: it shows what is in `trail` to clients for which `authorize` says `True`.

    `authorize` is asked each time a client connects or fetches, before the first byte of an answer; for anything but
    `True` the answer is 403, and 500 when it raises. A client that may see a session that is not there gets 404, and
    503 when the store cannot be read. A connection that stands is not asked about again. `config` chooses the parts of
    messages, and `conversation` the parts of the conversation; without that it shows as much of arguments and results
    as the messages. Browsers let any page open a WebSocket with the cookies of its user: one with an `Origin` that is
    neither ours nor among `origins` (such as `https://app.example.com`) gets 403 too, and a page without TLS is none of
    ours where the connection has it.

    An `agent.heartbeat`, or `flow.heartbeat`, goes out at the beginning and when a line was silent for
    `heartbeat_seconds`; `retry_seconds` tells browsers when to come again. Clients cannot send: no body is read, and a
    WebSocket that sends more than 64 KiB is closed. Open the trail with `live=True` to have the text of each run from
    its first word. On PostgreSQL it comes from runs of any process, on SQLite from those of this one. Raises
    `MissingExtra` without the extra `web`, and `ConfigurationError` for settings with which no answer could be given.
    """
    try:
        import_module("sse_starlette")  # used later: what is missing is said here, and not to a browser
        from starlette.applications import Starlette
        from starlette.routing import Route, WebSocketRoute
    except ImportError as error:
        raise MissingExtra("event_stream", "web", error.name or "sse-starlette") from error
    shown = checked_broadcast_config(config)
    endpoints = _Endpoints(
        a_kind_of(Steptrail, trail, "`trail`"),
        a_function(authorize, "authorize", "the connection", "the session"),
        shown,
        _like(shown) if conversation is None else a_kind_of(UiConfig, conversation, "conversation"),
        frozenset(a_text(each, "each of origins") for each in a_row(origins, "origins")),
        a_time(heartbeat_seconds, "heartbeat_seconds"),
        a_time(retry_seconds, "retry_seconds", from_zero=True),
    )
    path = "/sessions/{session}"
    return Starlette(
        routes=[
            Route(f"{path}/events", endpoints.events),
            WebSocketRoute(f"{path}/events", endpoints.socket),
            Route(f"{path}/conversation", endpoints.conversation),
            Route(f"{path}/files/{{digest}}", endpoints.file),
            Route("/flows/{flow}/events", endpoints.events),
            WebSocketRoute("/flows/{flow}/events", endpoints.socket),
            Route("/flows/{flow}/run", endpoints.run),
            Route("/flows/{flow}/files/{digest}", endpoints.file),
            Route("/steptrail.js", _client),
        ],
        exception_handlers={_Refused: _no},
    )


def _like(config: BroadcastConfig) -> UiConfig:
    """Return what shows no more in the conversation than the messages do."""
    return UiConfig(
        include_tool_args=config.include_tool_args and config.max_arg_length > 0,
        include_args_summary=config.include_tool_summaries and not config.include_tool_args,
        max_arg_length=max(1, config.max_arg_length),
        include_tool_results=config.include_tool_summaries,
        include_tool_errors=config.include_tool_summaries,
        include_continuation_trace=config.include_continuation_trace,
    )


async def _client(request: "Request") -> "Response":
    """Answer with the module for browsers. They ask for it anew each time: it belongs to the version that serves."""
    from starlette.responses import Response

    del request
    return Response(_CLIENT.read_bytes(), media_type="text/javascript", headers={"cache-control": "no-cache"})


class _Refused(Exception):
    """The request is refused with this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


@contextmanager
def _refusing() -> Generator[None]:
    """Refuse a request when what it is for is gone, or cannot be read, which is logged."""
    try:
        yield
        _away.over()
    except SessionNotFound:
        raise _Refused(HTTPStatus.NOT_FOUND) from None
    except StoreError as error:
        _away.warn("what is stored could not be read for an answer: %s", error)
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE) from None


@dataclass(frozen=True, slots=True)
class _Endpoints:
    """The answers, each to one connection."""

    trail: Steptrail
    authorize: Authorize
    config: BroadcastConfig
    ui: UiConfig
    origins: frozenset[str]
    heartbeat: float
    retry: float
    making: dict[tuple[str, int], asyncio.Future[bytes]] = field(default_factory=dict[tuple[str, int], Any])
    """The answers that are being made, by the names and versions of sessions and runs."""

    async def events(self, request: "Request") -> "Response":
        """Answer with Server-Sent Events."""
        messages = await self._messages(request)
        return event_source(lambda end: self._sent(messages, end))

    async def socket(self, websocket: "WebSocket") -> None:
        """Send the same over a WebSocket: each message is one text, and the client is not expected to send."""
        from starlette.websockets import WebSocketDisconnect

        try:
            messages = await self._messages(websocket)
        except _Refused:
            await websocket.close(_FORBIDDEN)  # before it is accepted, which is a 403
            return
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            async with aclosing(self._read(messages, partial(_gone, websocket))) as envelopes:
                async for envelope in envelopes:
                    await _delivered(websocket.send_text(envelope.to_json().decode()))
            await _delivered(websocket.close(_GOING_AWAY))

    async def conversation(self, request: "Request") -> "Response":
        """Answer with the stored conversation."""
        session, version = await self._admitted(request)

        async def read() -> Callable[[], UiModel]:
            return partial(ui_conversation, await self.trail.session(session).state(), self.ui)

        return await self._whole(session, version, read)

    async def file(self, request: "Request") -> "Response":
        """Answer with a file that the conversation, or the run, shows. A browser shows an image, and keeps others."""
        from starlette.responses import Response

        (session, _), digest = await self._admitted(request), request.path_params["digest"]
        with _refusing():
            is_flow = "flow" in request.path_params
            shown = await (self._files_of_run(id_of(session)) if is_flow else self._files_of_session(session))
            part = next((part for part in shown if part.digest == digest), None)
            if part is None:
                raise _Refused(HTTPStatus.NOT_FOUND)
            data = await stored_file(self.trail.store, digest)
        # The type is what somebody said: only of images that hold no program a browser may be told it.
        is_image = part.mime_type in SHOWN_IMAGES
        headers = {
            "Cache-Control": "private, no-store",
            "Content-Disposition": "inline" if is_image else "attachment",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(data, media_type=part.mime_type if is_image else ANYTHING, headers=headers)

    async def _files_of_session(self, session: str) -> list[FilePart]:
        state = await self.trail.session(session).state()
        said = (each for each in state.messages_so_far if each.is_user() or self.ui.include_tool_results)
        return [part for message in said for part in message.files]

    async def _files_of_run(self, flow_id: str) -> list[FilePart]:
        from steptrail.projections.ui.flow import files_shown

        return [*files_shown(await self.trail.flow(flow_id).state(), self.ui)]

    async def run(self, request: "Request") -> "Response":
        """Answer with the stored run of a workflow."""
        from steptrail.projections.ui.flow import ui_flow

        name, version = await self._admitted(request)
        flow = self.trail.flow(id_of(name))

        async def read() -> Callable[[], UiModel]:
            return partial(ui_flow, flow.id, await flow.history(), self.ui)

        return await self._whole(name, version, read)

    async def _whole(self, name: str, version: int, read: Callable[[], Awaitable[Callable[[], UiModel]]]) -> "Response":
        """Answer with all of a session or a run, made once for all who ask for this version while it is being made."""
        from starlette.responses import Response

        async def made() -> bytes:
            model = await read()
            return await asyncio.to_thread(lambda: model().to_json())  # of a long one this may take seconds

        if (making := self.making.get((name, version))) is None:
            making = self.making[name, version] = asyncio.ensure_future(made())
            making.add_done_callback(lambda _: self.making.pop((name, version)))
        with _refusing():
            body = await asyncio.shield(making)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    async def _sent(self, messages: SessionMessages, end: End) -> "AsyncGenerator[ServerSentEvent]":
        from sse_starlette import ServerSentEvent

        yield ServerSentEvent(retry=round(self.retry * 1000), sep="\n")
        async with aclosing(self._read(messages, end)) as envelopes:
            async for envelope in envelopes:
                # Without an id a browser keeps the last one that it had, and so comes again with what is stored.
                number = None if envelope.is_ephemeral else envelope.id
                yield ServerSentEvent(data=envelope.to_json().decode(), id=number, sep="\n")

    async def _read(self, messages: SessionMessages, end: End) -> AsyncGenerator[BroadcastEnvelope]:
        """Yield messages until `end` returns, and a heartbeat first and in every silence."""
        yield messages.heartbeat(self.heartbeat)
        async with aclosing(with_beats(_read(messages, end), self.heartbeat)) as read:
            async for envelope in read:
                yield messages.heartbeat(self.heartbeat) if envelope is None else envelope

    async def _messages(self, connection: "HTTPConnection") -> SessionMessages:
        """Return what is asked for. A browser that comes again has the address of its first time and a newer header."""
        session, _ = await self._admitted(connection)
        after = connection.headers.get("last-event-id") or connection.query_params.get("after")
        try:
            return SessionMessages(self.trail, session, self.config, after=place_after(after) if after else (0, 0))
        except ConfigurationError:
            raise _Refused(HTTPStatus.BAD_REQUEST) from None

    async def _admitted(self, connection: "HTTPConnection") -> tuple[str, int]:
        """Return the name of a session or run that the client may see, and its version."""
        of_flow = connection.path_params.get("flow")
        try:
            checked = checked_session_id(of_flow or connection.path_params["session"])
            session, stream = (f"flow:{checked}", f"flow:{checked}") if of_flow else (checked, stream_of(checked))
        except ConfigurationError:
            raise _Refused(HTTPStatus.FORBIDDEN) from None
        if not self._is_of_our_pages(connection):
            raise _Refused(HTTPStatus.FORBIDDEN)
        if await self._answer(connection, session) is not True:
            raise _Refused(HTTPStatus.FORBIDDEN)
        with _refusing():
            store = self.trail.store
            version = await store.version(stream)
            is_there = version and await store.erasure(stream) is None
        if not is_there:
            raise _Refused(HTTPStatus.NOT_FOUND)
        return session, version

    async def _answer(self, connection: "HTTPConnection", session: str) -> object:
        """Return what `authorize` says. An `HTTPException` that it raises is the answer to the client."""
        from starlette.exceptions import HTTPException

        try:
            answer = self.authorize(connection, session)
            return await answer if isawaitable(answer) else answer
        except HTTPException:
            raise
        except Exception as error:
            log_raised(_log, error, "`authorize` did not say whether a client may see a session", level=logging.ERROR)
            raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR) from None

    def _is_of_our_pages(self, connection: "HTTPConnection") -> bool:
        origin = connection.headers.get("origin")
        if connection.scope["type"] != "websocket" or origin is None or origin in self.origins:
            return True
        try:
            page = urlsplit(origin)
        except ValueError:  # this is no address at all
            return False
        # Behind a proxy that ends TLS we may not know of it; that a page has none where we have is never right.
        has_less = page.scheme == "http" and connection.url.scheme == "wss"
        return page.netloc == connection.headers.get("host") and not has_less


def _no(request: "Request", refused: Exception) -> "Response":
    """Answer a request that is refused. Caches keep a 404 where nobody forbids it, and a session may begin any time."""
    from starlette.responses import JSONResponse

    del request
    status = cast("_Refused", refused).status
    return JSONResponse({"error": status.phrase.lower()}, status, {"Cache-Control": "no-store"})


async def _read(messages: SessionMessages, end: End) -> AsyncGenerator[BroadcastEnvelope]:
    """Yield messages until `end` returns. An error ends them too, and is logged: the client comes again."""

    async def close() -> None:
        await end()
        await messages.aclose()

    try:
        async with messages:
            closing = asyncio.create_task(close())
            try:
                async for envelope in messages:
                    yield envelope
            finally:
                closing.cancel()
    except SessionNotFound:  # it was erased meanwhile, which the client is told when it comes again
        return
    except SteptrailError as error:
        _away.warn("the messages of a session could not be read on: %s", error)


async def _delivered(sending: Awaitable[None]) -> None:
    """Wait until something is sent. Raises `WebSocketDisconnect` when the other side is gone."""
    from starlette.websockets import WebSocketDisconnect

    try:
        await sending
    except RuntimeError as error:  # of uvicorn: the line has broken, or it has hung up on what is no WebSocket
        raise WebSocketDisconnect from error


async def _gone(websocket: "WebSocket") -> None:
    """Wait until the other side is gone, or says more than a line or two; none of it is for us."""
    heard = 0
    while heard <= _MOST_HEARD:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        heard += len(message.get("bytes") or b"") + len(message.get("text") or "")
