"""The routes. What changes something is answered once the change is stored; the work itself goes on behind it.

- `POST /runs` `{"input": ...}`, with an `Idempotency-Key` header if it may be sent again, and an `X-Customer`
- `GET /runs/ID` where it stands, and why
- `GET /runs/ID/stream` Server-Sent Events; the header `Last-Event-ID` goes on where a reader was
- `POST /runs/ID/messages` `{"text": ...}`
- `POST /runs/ID/stop` `{"by": ...}`
- `POST /runs/ID/approvals/APPROVAL` `{"answer": "approve" or "deny", "by": ...}`
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Literal, cast
from uuid import NAMESPACE_URL, uuid4, uuid5

import anyio
import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, JsonValue
from pydantic_core import to_json
from sse_starlette import EventSourceResponse, ServerSentEvent

from examples.service.agent import Customer, ShopReply
from steptrail import Agent, Message, RunResult, Steptrail, SteptrailError
from steptrail.errors import CommandRejected, ConfigurationError, NotStorable, SessionBusy, SessionNotFound, StoreError
from steptrail.events import Recorded
from steptrail.live import Followed, Following, OutputPartial, ReplyDelta, ToolProgress, UpdatesLost

__all__ = ["create_app"]

ShopAgent = Agent[ShopReply, Customer]

ANSWERS: dict[type[SteptrailError], HTTPStatus] = {
    ConfigurationError: HTTPStatus.BAD_REQUEST,
    NotStorable: HTTPStatus.UNPROCESSABLE_ENTITY,
    SessionNotFound: HTTPStatus.NOT_FOUND,
    CommandRejected: HTTPStatus.CONFLICT,
    SessionBusy: HTTPStatus.CONFLICT,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class NewRun(BaseModel):
    """What is asked."""

    input: str


class NewMessage(BaseModel):
    """What is said to a session."""

    text: str


Somebody = Annotated[str, Field(min_length=1, max_length=100)]


class Stopping(BaseModel):
    """Who wants it to stop, and why."""

    by: Somebody
    reason: str | None = None


class Answer(BaseModel):
    """What a person says about a call. A service that is not an example knows `by` from who is logged in."""

    answer: Literal["approve", "deny"]
    by: Somebody
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    digest: str | None = None


def create_app(store: str, agent: ShopAgent, *, grace: float = 10.0) -> FastAPI:
    """Return the service: requests store what is wanted, and a worker beside them does it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with Steptrail.open(store, live=True) as trail:
            app.state.desk = desk = Desk(trail, agent)
            async with trail.work(agent, grace=grace):
                yield
                desk.closing.set()
        await agent.model.close()

    app = FastAPI(title="An agent as a service", lifespan=lifespan)
    app.include_router(router)
    app.add_exception_handler(SteptrailError, _refused)
    app.add_exception_handler(RequestValidationError, _unfit)
    return app


@dataclass
class Desk:
    """All that a request needs. `closing` is set when the server is to end."""

    trail: Steptrail
    agent: ShopAgent
    closing: anyio.Event = field(default_factory=anyio.Event)


def _desk(request: Request) -> Desk:
    return cast(Desk, request.app.state.desk)


router = APIRouter(prefix="/runs")
DeskHere = Annotated[Desk, Depends(_desk)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
Who = Annotated[str, Header(alias="X-Customer", max_length=100)]
"""A service that is not an example knows this from who is logged in."""
Last = Annotated[int, Header(alias="Last-Event-ID", ge=0, lt=2**53)]


@router.post("", status_code=HTTPStatus.ACCEPTED)
async def start(body: NewRun, desk: DeskHere, key: Key = None, who: Who = "somebody") -> dict[str, JsonValue]:
    """Begin a run for a customer. The same key means the same run, so a client that heard no answer asks again."""
    session = f"run-{(uuid5(NAMESPACE_URL, key) if key else uuid4()).hex}"
    with suppress(SessionNotFound):
        state = await desk.trail.session(session).state()
        if state.messages[0] != Message.user(body.input):
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "this Idempotency-Key came with another input before")
    started = await desk.trail.start(desk.agent, body.input, session=session, key=key, context=Customer(name=who))
    return _data(await started.result())


@router.get("/{session}")
async def show(session: str, desk: DeskHere) -> dict[str, JsonValue]:
    """Say where a run stands, and why."""
    handle = desk.trail.session(session)
    return {**_data(await handle.result()), "why": (await handle.why()).to_dict()}


@router.get("/{session}/stream")
async def stream(session: str, desk: DeskHere, last: Last = 0) -> EventSourceResponse:
    """Show a run: stored events, which have an id, what is written between them, which has none, and the outcome.

    An event that is stored supersedes the text that was shown before it. All of the log is shown, what the agent was
    told included: choose what your users may see.
    """
    handle = desk.trail.session(session)
    await handle.state()  # says now that there is none

    async def told() -> AsyncGenerator[ServerSentEvent]:
        async with handle.follow(after=last) as following, anyio.create_task_group() as ending:
            ending.start_soon(_end_with_the_server, desk, following)
            async for each in following:
                yield _shown(each)
            ending.cancel_scope.cancel()
        result = await handle.result()
        if not result.state.is_open:  # otherwise the server ends: whoever comes again goes on where they were
            yield ServerSentEvent(event="outcome", data=_json(_data(result)))

    return EventSourceResponse(told(), shutdown_event=desk.closing, shutdown_grace_period=1)


@router.post("/{session}/messages", status_code=HTTPStatus.ACCEPTED)
async def say(session: str, body: NewMessage, desk: DeskHere, key: Key = None) -> dict[str, JsonValue]:
    """Say something: a run that goes on takes it in at its next step, one that rests begins again."""
    handle = desk.trail.session(session)
    await handle.state()  # says now that there is none: to say something would open it
    return _data(await handle.post(desk.agent, body.text, key=key))


@router.post("/{session}/stop")
async def stop(session: str, body: Stopping, desk: DeskHere) -> dict[str, JsonValue]:
    """Stop a run for good."""
    return _data(await desk.trail.session(session).stop(by=body.by, reason=body.reason))


@router.post("/{session}/approvals/{approval}", status_code=HTTPStatus.ACCEPTED)
async def answer(session: str, approval: str, body: Answer, desk: DeskHere) -> dict[str, JsonValue]:
    """Answer what a run waits for; it goes on at once."""
    handle = desk.trail.session(session)
    if body.answer == "approve":
        await handle.approve(approval, by=body.by, reason=body.reason, arguments=body.arguments, digest=body.digest)
    else:
        await handle.deny(approval, by=body.by, reason=body.reason)
    return _data(await handle.result())


async def _end_with_the_server(desk: Desk, following: Following) -> None:
    await desk.closing.wait()
    await following.aclose()


async def _refused(request: Request, error: Exception) -> JSONResponse:
    del request
    status = next((code for kind, code in ANSWERS.items() if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status_code=status)


async def _unfit(request: Request, error: Exception) -> JSONResponse:
    """Say what is wrong with a request without repeating it: it may be large, secret, or nothing that JSON can say."""
    del request
    wrong = cast(RequestValidationError, error).errors()
    detail = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong)
    return JSONResponse({"error": type(error).__name__, "detail": detail}, status_code=HTTPStatus.UNPROCESSABLE_ENTITY)


def _data(result: RunResult[JsonValue]) -> dict[str, JsonValue]:
    return {
        "id": result.session_id,
        "status": result.status.value,
        "stopReason": result.stop_reason.value if result.stop_reason else None,
        "answered": result.answered,
        "output": result.output_json,
        "approvals": [approval.id for approval in result.state.open_approvals],
        "version": result.state.version,
    }


UPDATES: dict[type, str] = {
    ReplyDelta: "delta",
    OutputPartial: "partial",
    ToolProgress: "progress",
    UpdatesLost: "lost",
}


def _shown(each: Followed) -> ServerSentEvent:
    if isinstance(each, Recorded):
        return ServerSentEvent(
            event=each.event.TYPE, id=str(each.version), data=msgspec.json.encode(each.event).decode()
        )
    return ServerSentEvent(event=UPDATES[type(each)], data=_json(msgspec.structs.asdict(each)))


def _json(data: object) -> str:
    return to_json(data).decode()
