"""A service for the tests: an agent, a workflow, event streams, pages with the reference client, a gate for words.

`python -m tests.web.served --store URL --port N`: the process that the tests kill and start again.
"""

import argparse
import asyncio
import socket
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from steptrail import Agent, AgentBuilder, Steptrail, SteptrailError, ToolEffect, tool
from steptrail.broadcasting.asgi import event_stream
from steptrail.models import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.runtime.kernel.ports import StreamingModelDriver
from steptrail.testing import Reply, ScriptedModel, calls
from steptrail.tools import ToolContext
from steptrail.workflow import BuiltWorkflow, Envelope, NodeContext, Workflow

ROOT = Path(__file__).parents[2]
USER = "ana"


def speak(request: ModelRequest) -> str | ModelReply:
    """Play the model: it looks in two places, one after the other, and answers."""
    results = takewhile(lambda message: not message.is_user(), reversed(request.messages))
    looked = sum(message.is_tool() for message in results)
    if "tea" not in next(message.text for message in reversed(request.messages) if message.is_user()):
        return "You are welcome."
    if looked == 0:
        return calls(("look", {"where": "attic"}), text="Let me look in the attic first.")
    if looked == 1:
        return calls(("look", {"where": "cellar"}))
    return "There are three boxes of tea in the attic and none in the cellar."


@tool(effect=ToolEffect.READ)
def look(where: str, context: ToolContext) -> str:
    """Look somewhere."""
    context.progress("looking")
    return {"attic": "three boxes of tea", "cellar": "no tea"}[where]


class Gate:
    """Lets so many pieces of text through as it has been told to; open means all."""

    def __init__(self, *, is_open: bool) -> None:
        self._left, self._is_open, self._changed = 0, is_open, asyncio.Condition()
        self.passed = 0

    async def let(self, pieces: int) -> None:
        async with self._changed:
            self._left, self._is_open = self._left + max(0, pieces), self._is_open or pieces < 0
            self._changed.notify_all()

    async def through(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_open or self._left > 0)
            self._left -= 0 if self._is_open else 1
            self.passed += 1


class Gated:
    """A model whose words wait at the gate."""

    def __init__(self, model: StreamingModelDriver, gate: Gate) -> None:
        self._model, self._gate = model, gate

    def describe(self) -> ModelInfo:
        return self._model.describe()

    async def infer(self, request: ModelRequest) -> ModelReply:
        return await self._model.infer(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        async for piece in self._model.stream(request):
            if not isinstance(piece, ModelReply):
                await self._gate.through()
            yield piece

    async def close(self) -> None:
        await self._model.close()


def agent_with(gate: Gate | None = None) -> Agent:
    script: list[Reply] = [speak] * 1000
    model = ScriptedModel(script)
    driver = model if gate is None else Gated(model, gate)
    return AgentBuilder("keeper").with_model(driver).with_tools(look).build()


WORDS = "Tea is a leaf that travels well."


def gather(envelope: Envelope, context: NodeContext) -> object:
    context.progress("gathering")
    return envelope.input


def flow_with(gate: Gate) -> BuiltWorkflow:
    """Return a workflow that writes a text, asks whether to publish it, and does."""
    model = Gated(ScriptedModel([WORDS] * 1000), gate)
    return (
        Workflow("publish", result="text")
        .function("gather", gather, output="topic")
        .llm("write", model, prompt="Write about {{ vars.topic }}", output="text")
        .human("review", type="approval", prompt="Publish it?", output="review")
        .function("publish", lambda envelope: envelope.vars["review_approved"], output="published")
        .chain("gather", "write", "review", "publish")
        .build()
    )


def create_app(store: str, *, gated: bool, heartbeat: float) -> Starlette:
    gate = Gate(is_open=not gated)
    agent, flow, working = agent_with(gate), flow_with(gate), set[asyncio.Task[object]]()

    def may(connection: HTTPConnection, session: str) -> bool:
        assert session
        token = connection.headers.get("authorization", "").removeprefix("Bearer of-")
        return USER in (connection.cookies.get("user"), connection.headers.get("x-user"), token)

    def begin(trail: Steptrail, session: str, text: str | None) -> None:
        async def work() -> None:
            with suppress(SteptrailError):
                if text is None:
                    await trail.session(session).resume(agent)
                elif await trail.store.version(f"agent:{session}"):
                    await trail.session(session).send(agent, text)
                else:
                    await trail.run(agent, text, session=session)

        keep(work())

    def keep(work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        working.add(task)
        task.add_done_callback(working.discard)

    async def go_on(trail: Steptrail, run: str) -> None:
        with suppress(SteptrailError):
            await trail.flow(run).resume(flow)

    async def start(request: Request) -> Response:
        keep(request.app.state.trail.run(flow, "tea", session=request.path_params["flow"]))
        return JSONResponse({}, 202)

    async def answer(request: Request) -> Response:
        trail, run = request.app.state.trail, request.path_params["flow"]
        await trail.flow(run).answer("review", approved=True, by=USER)
        keep(go_on(trail, run))
        return JSONResponse({}, 202)

    async def say(request: Request) -> Response:
        begin(request.app.state.trail, request.path_params["session"], (await request.json())["text"])
        return JSONResponse({}, 202)

    async def go(request: Request) -> Response:
        await gate.let(int(request.query_params["pieces"]))
        return JSONResponse({"passed": gate.passed})

    async def page(request: Request) -> Response:
        name = "flow.html" if "flow" in request.query_params else "page.html"
        shown = FileResponse(ROOT / "tests" / "web" / name)
        shown.set_cookie("user", request.query_params.get("user", USER))
        return shown

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with Steptrail.open(store, live=True) as trail:
            app.state.trail = trail
            app.mount("/agent", event_stream(trail, authorize=may, heartbeat_seconds=heartbeat, retry_seconds=0.2))
            for row in await trail.due():
                if row.stream.startswith("flow:"):
                    keep(go_on(trail, row.session_id))
                else:
                    begin(trail, row.session_id, None)
            yield
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", page),
            Route("/say/{session}", say, methods=["POST"]),
            Route("/start/{flow}", start, methods=["POST"]),
            Route("/answer/{flow}", answer, methods=["POST"]),
            Route("/go", go, methods=["POST"]),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gated", action="store_true")
    parser.add_argument("--heartbeat", type=float, default=0.2)
    parser.add_argument("--graceful", type=int, help="seconds that connections have at the end")
    given = parser.parse_args()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Who does not read is noticed early.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        listening.bind(("127.0.0.1", given.port))
        app = create_app(given.store, gated=given.gated, heartbeat=given.heartbeat)
        uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=given.graceful)).run(sockets=[listening])
