"""The endpoint in a real server, for a real client: one agent whose model does what the user says."""

import argparse
import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import uvicorn
from ag_ui.core import RunAgentInput
from starlette.requests import Request

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, Steptrail, ToolEffect, tool
from steptrail.agui import AguiCaller, AguiConfig, agui_app
from steptrail.models import ModelDelta, ModelReply, ModelRequest
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import SubagentTool

MARK = "the password is hunter2"


@tool(effect=ToolEffect.READ)
def stock(item: str) -> str:
    """Count what is left of an item."""
    return f"3 packets of {item}"


@tool(approval=True)
def order(item: str, packets: int) -> str:
    """Order packets of an item."""
    return f"{packets} packets of {item} are ordered"


class Obedient(ScriptedModel):
    """Answers what is asked; `slowly` waits between its words until the test lets it go on."""

    def __init__(self, folder: Path) -> None:
        super().__init__([_reply] * 1000)
        self._folder = folder

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        async for piece in super().stream(request):
            yield piece
            if isinstance(piece, ModelDelta) and piece.text.startswith("slowly"):
                while not (self._folder / "go-on").exists():
                    await asyncio.sleep(0.02)


def _reply(request: ModelRequest) -> ModelReply | str:
    last = request.messages[-1]
    asked = [message.text for message in request.messages if message.is_user()]
    if asked and asked[-1] == "for ever":
        return call("stock", item="tea")
    if last.is_tool():
        heard = last.parts[0].text if last.parts[0].kind == "tool_result" else ""
        return f"slowly I tell: {heard}." if "coffee" in heard else f"I have heard: {heard}."
    said = last.text
    if said == "fail":
        raise RuntimeError(MARK)
    if said in {"tea", "coffee"}:
        return call("stock", item=said)
    if said == "look":
        return call("look", at="page")
    if said == "order":
        return call("order", item="tea", packets=50)
    if said == "ask the clerk":
        return call("clerk", prompt="order")
    return say(f"slowly said: {said}" if said.startswith("slow") else f"You said: {said}")


def agent(folder: Path) -> Agent:
    clerk = AgentBuilder("clerk").with_model(Obedient(folder)).with_tools(order).build()
    return (
        AgentBuilder("shop")
        .with_model(Obedient(folder))
        .with_tools(stock, order, SubagentTool(clerk, name="clerk"))
        .with_limits(Limits(max_steps=3, stop_grace=0.1))
        .with_error_policy(ErrorPolicy.stop_on_any_error())
        .build()
    )


def authorize(request: Request, given: RunAgentInput) -> AguiCaller | None:
    del given
    name = request.headers.get("authorization")
    return AguiCaller(name=name, metadata={"owner": name}) if name else None


async def serve(folder: Path, store: str) -> None:
    async with Steptrail.open(store) as trail:
        app = agui_app(trail, agent(folder), authorize=authorize, config=AguiConfig())
        await uvicorn.Server(uvicorn.Config(app, port=0, log_level="info")).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", help="an address; a file in the folder otherwise")
    asked = parser.parse_args()
    asyncio.run(serve(asked.folder, asked.store or f"sqlite:///{asked.folder / 'runs.db'}"))
