"""A trail that is closed while runs go on through it: each is paused before its store is closed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.errors import StoreUnavailable
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool

CUT = "the trail was closed while this ran"


class Desk:
    """A tool that works until it is cut off, and the agents that call it."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

        @tool(effect=ToolEffect.READ)
        async def look() -> str:
            """Look for as long as it takes."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
            return "found"

        self.clerk = AgentBuilder("clerk").with_model(ScriptedModel([call("look"), "done"])).with_tools(look).build()
        asking = ScriptedModel([call("clerk", prompt="Look."), "done"])
        self.chief = AgentBuilder("chief").with_model(asking).with_tools(SubagentTool(self.clerk)).build()

    async def has_begun(self) -> None:
        while not self.began.is_set():
            await asyncio.sleep(0.001)


async def stands(url: str) -> dict[str, tuple[str, bool, bool]]:
    """Return of each session where it stands, and whether it crashed and is due."""
    async with Steptrail.open(url) as trail:
        due = {row.session_id for row in await trail.due()}
        return {row.session_id: (row.status, row.is_crashed, row.session_id in due) for row in await trail.runs()}


async def test_a_run_is_paused_and_its_caller_told(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(desk.clerk, "Go.", session="s"))
    await desk.has_begun()
    await trail.close()
    assert desk.ended.is_set()
    with pytest.raises(StoreUnavailable, match=CUT):
        await running
    assert running.cancelling() == 0
    assert await stands(store_url) == {"s": ("paused", False, True)}


async def test_a_run_whose_answer_is_stored_returns_it_though_its_resources_are_still_being_closed(
    store_url: str,
) -> None:
    closing, closed = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def shop(_: object) -> AsyncGenerator[str]:
        yield "shop"
        closing.set()
        await closed.wait()

    agent = AgentBuilder("clerk").with_model(ScriptedModel(["done"])).with_resources(shop).build()
    trail = Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(agent, "Go.", session="s"))
    await closing.wait()
    ending = asyncio.create_task(trail.close())
    while not running.cancelling():
        await asyncio.sleep(0.001)
    closed.set()
    await ending
    assert ((await running).output, running.cancelling()) == ("done", 0)
    assert await stands(store_url) == {"s": ("completed", False, False)}


async def test_what_a_run_has_begun_is_paused_with_it(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(desk.chief, "Go.", session="s"))
    await desk.has_begun()
    await trail.close()
    with pytest.raises(StoreUnavailable, match=CUT):
        await running
    found = await stands(store_url)
    assert found.pop("s") == ("paused", False, True)
    assert [(status, crashed) for status, crashed, _ in found.values()] == [("paused", False)]


async def test_runs_of_a_worker_that_was_not_left_are_paused(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    await trail.start(desk.clerk, "Go.", session="s")
    async with trail.work(desk.clerk):
        await desk.has_begun()
        await trail.close()
    assert await stands(store_url) == {"s": ("paused", False, True)}


def test_runs_of_other_threads_are_paused_by_the_blocking_twin(store_url: str) -> None:
    desk, told = Desk(), list[str]()

    def work() -> None:
        try:
            trail.run(desk.clerk, "Go.", session="s")
        except StoreUnavailable as error:
            told.append(str(error))

    with Steptrail.open_sync(store_url) as trail:
        working = threading.Thread(target=work)
        working.start()
        assert desk.began.wait(60)
    working.join()
    assert told == [f"{CUT}: open it again"]
    assert asyncio.run(stands(store_url)) == {"s": ("paused", False, True)}


async def test_a_caller_that_is_cancelled_as_well_is_cancelled(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(desk.clerk, "Go.", session="s"))
    await desk.has_begun()
    closing = asyncio.create_task(trail.close())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await closing
    assert await stands(store_url) == {"s": ("paused", False, True)}


async def test_a_run_that_a_tool_left_behind_is_paused_too(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    left = list[asyncio.Task[object]]()

    @tool
    async def begin() -> str:
        """Begin a run, and do not wait for it."""
        left.append(asyncio.create_task(trail.run(desk.clerk, "Go.", session="s")))
        await desk.has_begun()
        return "begun"

    model = ScriptedModel([call("begin"), "done"])
    await trail.run(AgentBuilder("chief").with_model(model).with_tools(begin).build(), "Go.", session="c")
    await trail.close()
    with pytest.raises(StoreUnavailable, match=CUT):
        await left[0]
    assert (await stands(store_url))["s"] == ("paused", False, True)


async def test_a_run_of_another_trail_may_close_this_one(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)

    async def close() -> None:
        running = asyncio.create_task(trail.run(desk.clerk, "Go.", session="s"))
        await desk.has_begun()
        await trail.close()
        with pytest.raises(StoreUnavailable, match=CUT):
            await running

    async with Steptrail.open("sqlite:///:memory:") as other:
        done = await other.run(closing_tool(close), "Go.")
        assert not done.state.steps[0].has_errors
    assert await stands(store_url) == {"s": ("paused", False, True)}


async def test_nothing_begins_in_a_trail_that_is_being_closed(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)

    async def again_and_again() -> None:
        with suppress(StoreUnavailable):
            await trail.run(desk.clerk, "Go.", session="s")
        await trail.run(desk.clerk, "Go.", session="t")

    running = asyncio.create_task(again_and_again())
    await desk.has_begun()
    await trail.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await running
    assert await stands(store_url) == {"s": ("paused", False, True)}


async def test_two_who_close_at_once_cut_a_run_off_once(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(desk.clerk, "Go.", session="s"))
    await desk.has_begun()
    await asyncio.gather(trail.close(), trail.close())
    with pytest.raises(StoreUnavailable, match=CUT):
        await running
    assert running.cancelling() == 0


def closing_tool(close: Callable[[], object]) -> Agent:
    @tool
    async def close_all() -> str:
        """Close the trail that this runs through."""
        closing = close()
        if asyncio.iscoroutine(closing):
            await closing
        return "closed"

    return AgentBuilder("closer").with_model(ScriptedModel([call("close_all")])).with_tools(close_all).build()


async def test_a_run_that_closes_its_own_trail_does_not_wait_for_itself(store_url: str) -> None:
    trail = Steptrail.open(store_url)
    with pytest.raises(StoreUnavailable):
        await trail.run(closing_tool(trail.close), "Go.", session="s")


async def test_a_run_that_closes_its_own_trail_pauses_the_others(store_url: str) -> None:
    desk, trail = Desk(), Steptrail.open(store_url)
    running = asyncio.create_task(trail.run(desk.chief, "Go.", session="s"))
    await desk.has_begun()
    with pytest.raises(StoreUnavailable):
        await trail.run(closing_tool(trail.close), "Go.", session="closes")
    with pytest.raises(StoreUnavailable, match=CUT):
        async with asyncio.timeout(60):
            await running
    assert (await stands(store_url))["s"] == ("paused", False, True)


async def test_nothing_begins_while_others_are_still_to_let_go(store_url: str) -> None:
    desk, other, has_tried = Desk(), Desk(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def tidy() -> str:
        """Work until it is cut off, and then until somebody else has tried to begin."""
        try:
            await desk.has_begun()
            await asyncio.Event().wait()
        finally:
            await has_tried.wait()
        return "tidied"

    async def one_after_another() -> None:
        with pytest.raises(StoreUnavailable, match=CUT):
            await trail.run(desk.clerk, "Go.", session="first")
        following = asyncio.create_task(trail.run(other.clerk, "Go."))
        beginning = asyncio.create_task(other.has_begun())
        await asyncio.wait([following, beginning], return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        has_tried.set()
        following.cancel()
        with pytest.raises(StoreUnavailable, match="closed"):
            await following

    trail = Steptrail.open(store_url)
    tidier = AgentBuilder("tidier").with_model(ScriptedModel([call("tidy"), "done"])).with_tools(tidy).build()
    slow = asyncio.create_task(trail.run(tidier, "Go.", session="slow"))
    quick = asyncio.create_task(one_after_another())
    await desk.has_begun()
    await trail.close()
    await quick
    with pytest.raises(StoreUnavailable, match=CUT):
        await slow
    assert not other.began.is_set()


async def test_a_message_that_was_not_said_gets_no_answer_to_another_one_where_the_trail_is_closed(
    store_url: str,
) -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["One.", "Two."])).build()
    desk, reached, closing = Desk(), list[str](), list[asyncio.Task[None]]()
    from_outside = copy_context()

    async def answered_elsewhere() -> None:
        async with Steptrail.open(store_url) as other:
            assert (await other.run(agent, "a", session="s")).output == "One."

    def reach(point: str) -> None:
        reached.append(point)
        if point == "before-acquire" and reached.count(point) == 2:
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(asyncio.run, answered_elsewhere()).result()
        elif point == "before-release" and not closing:
            closing.append(asyncio.create_task(environment.at_work.cut_off(), context=from_outside))

    environment = Environment(store=open_store(store_url), reach=reach)
    trail = Steptrail(environment)
    other_run = asyncio.create_task(trail.run(desk.clerk, "Go.", session="t"))
    await desk.has_begun()
    with pytest.raises(StoreUnavailable, match=CUT):
        await trail.run(agent, "b", session="s")
    with suppress(StoreUnavailable):
        await other_run
    await closing[0]
    await trail.close()
