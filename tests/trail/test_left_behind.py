"""What a run leaves open below when its process dies after its end is stopped by whoever comes later."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from steptrail import Agent, Steptrail
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.runtime.kernel.control import StreamControl
from steptrail.testing import call
from steptrail.tools import SubagentTool
from steptrail.workflow import BuiltWorkflow, Workflow
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of
from tests.trail.workers import PATIENCE, Desk, Place

pytestmark = pytest.mark.usefixtures("often")


@pytest.mark.parametrize("by", ["worker", "resume", "run", "run after a look"])
async def test_what_a_run_left_behind_whose_process_died_after_its_end_is_stopped(
    place: Place, desk: Desk, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    below_it = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="pay"), "Done."]).with_tools(below_it).build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        (below,) = [row.stream for row in await trail.runs() if row.parent is not None]
        with monkeypatch.context() as dies:
            dies.setattr(StreamControl, "stop_below", _dies)
            with pytest.raises(Crash):
                await trail.session("s").stop()
        assert [id_of(question.stream) for question in await trail.inbox()] == [id_of(below)]
        if by == "resume":
            await trail.session("s").resume(boss)
        elif by.startswith("run"):
            if by == "run after a look":
                async with Steptrail.open(place.url, read_only=True) as looking:
                    assert (await looking.run(boss, "go", session="s")).stored
            assert (await trail.run(boss, "go", session="s")).stored
        else:
            async with trail.work(boss), asyncio.timeout(PATIENCE):
                while await trail.inbox():
                    await asyncio.sleep(0.01)
        assert [row.stop_reason for row in await trail.runs()] == 2 * ["user_requested"]


async def test_who_asks_again_with_the_key_of_a_workflow_stops_what_it_left_behind(
    place: Place, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss = Workflow("boss").agent("below", desk.agent(first="pay"), prompt="pay").build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s", key="once")
        with monkeypatch.context() as dies:
            dies.setattr(StreamControl, "stop_below", _dies)
            with pytest.raises(Crash):
                await trail.flow("s").stop()
        assert await trail.inbox()
        assert (await trail.run(boss, "go", session="s", key="once")).stored
        assert [row.stop_reason for row in await trail.runs()] == 2 * ["user_requested"]


async def _dies(*_: object, **__: object) -> Sequence[str]:
    raise Crash


@pytest.mark.parametrize("by", ["stop", "the run above"])
async def test_what_a_child_left_behind_is_stopped_by_the_run_above_too(
    place: Place, desk: Desk, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    deepest = SubagentTool(desk.agent(first="pay"), name="deepest")
    middle = agent_of([call("deepest", prompt="pay"), "Done."]).with_tools(deepest).build()
    boss = agent_of([call("middle", prompt="pay"), "Done."]).with_tools(SubagentTool(middle, name="middle")).build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        rows = await trail.runs()
        (child,) = [row.stream for row in rows if row.parent is not None and id_of(row.parent.stream) == "s"]
        with monkeypatch.context() as dies:
            dies.setattr(StreamControl, "stop_below", _dies)
            with pytest.raises(Crash):
                await trail.session(id_of(child)).stop()
        assert await trail.inbox()
        if by == "stop":
            await trail.session("s").stop()
        else:
            await trail.session("s").resume(boss)
        assert not await trail.inbox()


async def test_what_somebody_goes_on_with_by_hand_below_a_run_that_has_ended_is_not_stopped(
    place: Place, desk: Desk, pass_by: Callable[[], Awaitable[None]]
) -> None:
    paying = agent_of(["Paid.", call("pay")]).with_tools(*desk.tools).build()
    below_it = SubagentTool(paying, name="below")
    boss = agent_of([call("below", prompt="pay"), "Done."]).with_tools(below_it).build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        (below,) = [row for row in await trail.runs() if row.parent is not None]
        await trail.session(below.session_id).send(paying, "Pay again.")
        async with trail.work(boss):
            await pass_by()
        assert [id_of(question.stream) for question in await trail.inbox()] == [below.session_id]


@pytest.mark.parametrize("above", ["agent", "flow"])
async def test_a_child_that_had_failed_and_is_retried_by_hand_below_a_run_that_has_ended_is_not_stopped(
    place: Place, desk: Desk, pass_by: Callable[[], Awaitable[None]], above: str
) -> None:
    paying = agent_of([ValueError("away"), call("pay")]).with_tools(*desk.tools).build()
    boss: Agent | BuiltWorkflow = Workflow("boss").agent("below", paying, prompt="pay").build()
    if above == "agent":
        below_it = SubagentTool(paying, name="below")
        boss = agent_of([call("below", prompt="pay"), "Done.", "Done again."]).with_tools(below_it).build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        (below,) = [row for row in await trail.runs() if row.parent is not None]
        await trail.session(below.session_id).retry(paying)

        async def asked() -> Sequence[str]:
            return [id_of(question.stream) for question in await trail.inbox()]

        async with trail.work(boss):
            await pass_by()
        assert await asked() == [below.session_id]
        if isinstance(boss, BuiltWorkflow):
            await trail.flow("s").resume(boss)
            assert await asked() == [below.session_id]
            await trail.flow("s").retry(boss)
        else:
            await trail.session("s").resume(boss)
            assert await asked() == [below.session_id]
            await trail.session("s").send(boss, "And now?")
        assert await asked() == [below.session_id]


async def test_a_retried_run_that_went_on_with_what_was_retried_by_hand_below_it_stops_it_at_its_end(
    place: Place, desk: Desk
) -> None:
    paying = agent_of([ValueError("away"), call("pay")]).with_tools(*desk.tools).build()
    boss = Workflow("boss").agent("below", paying, prompt="pay").build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        (below,) = [row for row in await trail.runs() if row.parent is not None]
        await trail.session(below.session_id).retry(paying)
        await trail.flow("s").retry(boss)
        await trail.flow("s").stop()
        assert [row.stop_reason for row in await trail.runs()] == 2 * ["user_requested"]


async def test_what_a_run_left_behind_is_stopped_before_the_next_run_of_its_session(
    place: Place, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    below_it = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="pay"), "Done.", "Done again."]).with_tools(below_it).build()
    async with place.opened() as trail:
        await trail.run(boss, "go", session="s")
        with monkeypatch.context() as dies:
            dies.setattr(StreamControl, "stop_below", _dies)
            with pytest.raises(Crash):
                await trail.session("s").stop()
        await trail.session("s").send(boss, "And now?")
        assert not await trail.inbox()


async def test_what_a_process_with_a_fast_clock_had_begun_is_stopped_with_the_run_above(desk: Desk) -> None:
    """By the clocks alone it began after that run had ended, as what somebody goes on with by hand does."""
    right = HandClock()
    fast, dies = HandClock(to_datetime(right.utc()) + timedelta(minutes=10)), crash_at("after-append", 3)

    def reach(point: str) -> None:
        fast.advance(1)
        dies(point)

    below_it = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="pay"), "Done."]).with_tools(below_it).build()
    async with trail_of(right) as trail:
        with pytest.raises(Crash):
            await again_on(trail, fast, reach).run(boss, "go", session="s")
        assert [row.is_open for row in await trail.runs()] == 2 * [True]
        await trail.session("s").stop(by="ops")
        assert [row.stop_reason for row in await trail.runs()] == 2 * ["user_requested"]
