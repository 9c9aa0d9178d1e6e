"""The worker of an endpoint: in whose name it works, and that it works wherever the endpoint is served again."""

import asyncio
from contextvars import ContextVar

import httpx
from starlette.types import Receive, Scope, Send

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.agui import AguiApp, agui_app
from steptrail.testing import Reply, ScriptedModel, call
from tests.agui.pages import Front, ana, user
from tests.runner.kit import agent_of, trail_of
from tests.unit.agui.client import Client


async def test_the_runs_of_all_are_in_the_context_of_none_who_asked() -> None:
    asking = ContextVar("asking", default="nobody")

    @tool(effect=ToolEffect.READ)
    async def whose() -> str:
        """Say who asks, as the middleware of a service has set it for its own code."""
        return asking.get()

    script: list[Reply] = [call("whose"), "One.", call("whose"), "Two."]
    agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(whose).build()
    async with trail_of() as trail:
        app = agui_app(trail, agent, authorize=ana)

        async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
            asking.set("ana" if app_was_asked == 0 else "ben")
            await app(scope, receive, send)

        app_was_asked = 0
        async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://test") as http:
            for app_was_asked in range(2):
                page = Front(http, Client())
                await asyncio.create_task(page.run(user("whose?"), thread=f"t{app_was_asked}"))
                assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["nobody"]
        await app.aclose()


async def _said_to(app: AguiApp, thread: str) -> str:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        page = Front(http, Client())
        await page.run(user("hello"), thread=thread)
        return str(page.client.said[-1]["content"])


def test_an_endpoint_works_in_a_loop_after_that_in_which_it_has_begun() -> None:
    trail = Steptrail.open("sqlite:///:memory:")
    app = agui_app(trail, agent_of(["Hello."]).build(), authorize=ana)
    try:
        assert [asyncio.run(_said_to(app, thread)) for thread in ("t1", "t2")] == ["Hello.", "Hello."]
    finally:
        asyncio.run(app.aclose())
        asyncio.run(trail.close())


async def _said_at_once(app: AguiApp, *threads: str) -> list[str]:
    return await asyncio.gather(*(_said_to(app, thread) for thread in threads))


def test_an_endpoint_works_in_a_second_loop_where_two_come_at_once_in_each() -> None:
    trail = Steptrail.open("sqlite:///:memory:")
    app = agui_app(trail, agent_of(["Hello."]).build(), authorize=ana)
    try:
        for threads in (("t1", "t2"), ("t3", "t4")):
            assert asyncio.run(_said_at_once(app, *threads)) == ["Hello.", "Hello."]
    finally:
        asyncio.run(app.aclose())
        asyncio.run(trail.close())


async def test_an_endpoint_works_wherever_the_request_is_cut_off_with_which_it_begins() -> None:
    async with trail_of() as trail:
        for turns in range(12):
            app = agui_app(trail, agent_of(["Hello."]).build(), authorize=ana, grace=1.0)
            first = asyncio.create_task(app.__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            assert await _said_to(app, f"t{turns}") == "Hello."
            await app.aclose()


async def test_an_endpoint_that_was_closed_works_when_it_is_begun_again() -> None:
    async with trail_of() as trail:
        app = agui_app(trail, agent_of(["Hello."]).build(), authorize=ana, grace=1.0)
        for thread in ("t1", "t2"):
            async with app:
                assert await _said_to(app, thread) == "Hello."
