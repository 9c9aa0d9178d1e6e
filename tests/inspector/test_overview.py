"""The overview names what needs somebody, however many runs began later that need nobody."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.infrastructure.store.opening import open_store
from steptrail.inspector import Access
from steptrail.interfaces.http.inspector import lists
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ManualClock, ScriptedModel, call
from steptrail.tools import ApprovalRule
from tests.inspector.inspected import desk
from tests.inspector.test_erased import browsing
from tests.inspector.test_pages import words
from tests.runner.kit import Crash, crash_at

MANY = lists.PAGE + 1
"""More runs than a page has."""


@tool(approval=ApprovalRule(expires=60))
def hurry() -> str:
    """Ask in haste."""
    return "done"


@tool(approval=ApprovalRule())
def lend() -> str:
    """Ask and wait."""
    return "lent"


def asking(name: str) -> Agent:
    return AgentBuilder("asks").with_model(ScriptedModel([call(name)])).with_tools(hurry, lend).build()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


async def overview(trail: Steptrail) -> str:
    async with browsing(trail) as client:
        return words((await client.get("/")).text).partition("Newest runs")[0]


async def crashed(url: str) -> None:
    async with Steptrail(Environment(store=open_store(url), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.run(desk("never said"), "Hi", session="crashed")


@asynccontextmanager
async def at_work(trail: Steptrail) -> AsyncGenerator[None]:
    """Many runs that began last, at work inside of the block, and then cancelled by their caller."""
    working, forever, count = asyncio.Event(), asyncio.Event(), 0

    @tool(effect=ToolEffect.READ)
    async def ponder() -> str:
        """Go on and on."""
        nonlocal count
        count += 1
        if count == MANY:
            working.set()
        await forever.wait()
        return "done"

    busy = AgentBuilder("busy").with_model(ScriptedModel([call("ponder")] * MANY)).with_tools(ponder).build()
    runs = [asyncio.create_task(trail.run(busy, "Hi", session=f"busy-{number}")) for number in range(MANY)]
    await working.wait()
    yield
    for run in runs:
        run.cancel()
    await asyncio.gather(*runs, return_exceptions=True)


async def test_a_crashed_run_is_named_though_many_are_at_work_that_began_later(url: str) -> None:
    await crashed(url)
    async with Steptrail.open(url) as trail, at_work(trail):
        assert "1 crashed crashed on" in await overview(trail)


async def test_a_paused_run_is_named_though_a_deployment_cut_off_many_that_began_later(url: str) -> None:
    async with Steptrail.open(url) as trail:
        await trail.run(asking("lend"), "Hi", session="paused")
        await trail.session("paused").pause(by="ana")
        async with at_work(trail):
            pass
        assert "1 paused by a person paused by ana" in await overview(trail)


async def test_an_open_question_is_counted_though_many_that_were_asked_later_have_expired(url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(url, clock=clock) as trail:
        await trail.run(asking("lend"), "Hi", session="patient")
        for number in range(MANY):
            await trail.run(asking("hurry"), "Hi", session=f"hasty-{number}")
        clock.advance(timedelta(hours=1))
        assert "1 open question ," in await overview(trail)


async def test_a_run_that_failed_lately_is_named_though_many_that_began_later_failed_long_ago(url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(url, clock=clock) as trail:
        await trail.run(asking("lend"), "Hi", session="late")
        for number in range(MANY):
            await trail.run(desk(), "Hi", session=f"failed-{number}")
        clock.advance(timedelta(days=2))
        (question,) = await trail.inbox()
        await trail.session("late").deny(question.id, by="ana")
        assert (await trail.session("late").resume(asking("lend"))).status == "failed"
        assert "1 failed within a day late" in await overview(trail)


@pytest.mark.parametrize(("tenant", "said"), [(None, "There are more"), ("acme", "mine")])
async def test_the_page_of_health_finds_what_can_go_on_behind_a_page_of_others(
    url: str, tenant: str | None, said: str
) -> None:
    def authorize(request: object) -> Access:
        assert request is not None
        return Access(tenant=tenant)

    async with Steptrail.open(url) as trail:
        for name in ("mine", *(f"other-{number}" for number in range(MANY))):
            owner = "acme" if name == "mine" else "other"
            await trail.start(desk("Yes."), "Hi", session=name, metadata={"tenant": owner})
        async with browsing(trail, authorize) as client:
            page = words((await client.get("/health")).text).partition("Can go on now")[2]
    assert said in page
    assert ("other-" in page) is (tenant is None)


async def test_where_not_every_run_was_looked_at_nothing_is_said_of_those_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "_MOST_LOOKED_AT", lists.PAGE)
    async with Steptrail.open(url) as trail:
        assert "Nothing: nobody is asked anything" in await overview(trail)
        async with at_work(trail):
            pass
        said = await overview(trail)
    assert "Nothing in the runs that began last" in said
