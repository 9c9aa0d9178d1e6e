"""A front end of the endpoint in this process, and agents that wait for it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from ag_ui.core import Event, Message, RunAgentInput
from pydantic import TypeAdapter
from starlette.requests import Request

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.agui import AguiApp, AguiCaller, AguiConfig, agui_app
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import ApprovalRule
from tests.unit.agui.client import Client

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)
JOINED = AguiConfig(branches="join")
"""For a thread in which several people speak, or pages that send a new message alone."""


@dataclass(frozen=True)
class Front:
    """A front end of the thread `t`, which checks the order of every run that it sees."""

    http: httpx.AsyncClient
    client: Client

    async def post(self, *messages: dict[str, Any], thread: str = "t", **more: Any) -> httpx.Response:
        asked = {"threadId": thread, "runId": "r", "protocolVersion": "1.0", "messages": list(messages), **more}
        return await self.http.post("/", json=asked)

    async def run(self, *messages: dict[str, Any], **more: Any) -> list[Event]:
        """Say something as a client does, which holds the conversation and sends all of it."""
        held = {message.id for message in self.client.messages}
        self.client.messages += [MESSAGE.validate_python(each) for each in messages if each["id"] not in held]
        answered = await self.post(*self.client.said, **more)
        assert answered.status_code == 200, answered.text
        lines = [line.removeprefix("data: ") for line in answered.text.splitlines() if line.startswith("data: ")]
        events = [EVENTS.validate_json(line) for line in lines]
        self.client.take_all(events)
        assert self.client.run_is_over()
        return events

    async def refused(self, status: int, *messages: dict[str, Any], **more: Any) -> str:
        answered = await self.post(*messages, **more)
        assert answered.status_code == status, answered.text
        return str(answered.json()["error"])


def ana(request: Request, given: RunAgentInput) -> AguiCaller | None:
    del request, given
    return AguiCaller(name="ana")


@asynccontextmanager
async def front(
    trail: Steptrail, agent: AnyAgent, config: AguiConfig | None = None, app: AguiApp | None = None
) -> AsyncGenerator[Front]:
    served = app or agui_app(trail, agent, authorize=ana, config=config or AguiConfig(), grace=1.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://test") as http:
        yield Front(http, Client())
    await served.aclose()


def user(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": text}


def yes(interrupt: str, **more: Any) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "resolved", "payload": {"approved": True} | more}


def no(interrupt: str) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "cancelled"}


def asking(*script: Reply, expires: float = 3600.0) -> Agent:
    @tool(approval=ApprovalRule(expires=expires))
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    said = script or (call("pay", cents=900), "Paid.")
    return AgentBuilder("bank").with_model(ScriptedModel(said)).with_tools(pay).build()


async def at_rest(trail: Steptrail, session: str) -> None:
    """Wait until a session has ended, whoever works on it."""
    while (await trail.session(session).state()).is_open:
        await asyncio.sleep(0.01)


def ending(events: Sequence[Event]) -> dict[str, Any]:
    found: dict[str, Any] = events[-1].model_dump(mode="json", by_alias=True)
    return found


class Gate:
    """A tool that waits until it is let through."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()

        @tool(effect=ToolEffect.READ)
        async def gate() -> str:
            """Wait."""
            self.entered.set()
            await self.open.wait()
            return "through"

        self.tool = gate

    def agent(self) -> Agent:
        return (
            AgentBuilder("gate")
            .with_model(ScriptedModel([call("gate"), "Done.", "More.", "Even more."]))
            .with_tools(self.tool)
            .build()
        )
