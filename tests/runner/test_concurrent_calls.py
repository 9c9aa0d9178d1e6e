"""Calls of one reply that run side by side: all at once, each with its own end, and none is lost."""

import asyncio
import threading
from contextlib import suppress

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Limits, ToolEffect, tool
from steptrail.domain.agent.events import (
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.errors import OwnershipLost
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools.decorator import Tool
from steptrail.testing import Reply, ScriptedModel, calls
from tests.processes.scene import NAME, Scene
from tests.runner.kit import Crash, again_on, crash_at, run, trail_of

PATIENCE = 60.0
"""Seconds. Far longer than anything here takes: only a call that never comes uses it up."""


def asking(*tools: Tool, script: list[Reply]) -> AgentBuilder:
    builder = AgentBuilder("busy").with_model(ScriptedModel(script)).with_tools(*tools)
    return builder.with_error_policy(ErrorPolicy.ignore_tool_errors())


def several(name: str, count: int) -> list[Reply]:
    wanted: list[tuple[str, dict[str, JsonValue]]] = [(name, {"n": n}) for n in range(count)]
    return [calls(*wanted), "done"]


@pytest.mark.parametrize("in_the_loop", [True, False])
async def test_ten_calls_of_one_reply_run_at_once(in_the_loop: bool) -> None:
    all_here, seen = threading.Barrier(10), list[int]()

    @tool(effect=ToolEffect.READ)
    def meet(n: int) -> int:
        """Wait for the others."""
        all_here.wait(PATIENCE)
        return n

    @tool(name="meet", effect=ToolEffect.READ)
    async def meet_in_the_loop(n: int) -> int:
        """Wait for the others."""
        seen.append(n)
        async with asyncio.timeout(PATIENCE):
            while len(seen) < 10:
                await asyncio.sleep(0)
        return n

    chosen = meet_in_the_loop if in_the_loop else meet
    ran = await run(asking(chosen, script=several("meet", 10)).with_max_concurrent_tools(10).build())
    assert ran.result.output == "done"
    assert ran.shown == [str(n) for n in range(10)]
    # One commit has all the starts, so that a crash finds every one of them.
    starts = [record for record in ran.records if isinstance(record.event, ToolExecutionStarted)]
    assert len(starts) == 10
    assert len({record.head.commit_id for record in starts if record.head is not None}) == 1


async def test_as_many_run_at_once_as_the_limit_allows() -> None:
    now = most = 0

    @tool(effect=ToolEffect.READ)
    async def crowd(n: int) -> int:
        """Count who is here."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return n

    ran = await run(asking(crowd, script=several("crowd", 9)).with_max_concurrent_tools(3).build())
    assert (most, ran.shown) == (3, [str(n) for n in range(9)])


async def test_a_call_that_hangs_ends_at_its_timeout_and_the_others_keep_their_results() -> None:
    @tool(effect=ToolEffect.READ, timeout=0.2)
    async def fetch(n: int) -> int:
        """Fetch something."""
        if n == 1:
            await asyncio.Event().wait()
        return n

    ran = await run(asking(fetch, script=several("fetch", 3)).build())
    assert [call.status for call in ran.result.state.steps[0].tool_executions] == ["completed", "failed", "completed"]
    assert ran.shown[0::2] == ["0", "2"]
    assert "did not end within 0.2 seconds" in ran.shown[1]
    # The results of the others were stored as they came, and the transcript has them in the order of the calls.
    ends = [event.position for event in ran.events if isinstance(event, ToolExecutionCompleted)]
    assert ends == [0, 2]


async def test_a_result_is_stored_as_soon_as_it_is_there() -> None:
    async with trail_of() as trail:

        @tool(effect=ToolEffect.READ)
        async def fetch(n: int) -> int:
            """Fetch something; the second call comes back when the first one's result is in the log."""
            async with asyncio.timeout(PATIENCE):
                while n == 1 and not await is_stored(0):
                    await asyncio.sleep(0)
            return n

        async def is_stored(position: int) -> bool:
            events = [record.event for record in await trail.session("s").events()]
            return any(isinstance(e, ToolExecutionCompleted) and e.position == position for e in events)

        result = await trail.run(asking(fetch, script=several("fetch", 2)).build(), "go", session="s")
        assert [call.text or "" for call in result.state.steps[0].tool_executions] == ["0", "1"]


async def test_a_stop_gives_those_that_run_their_grace_and_starts_no_other() -> None:
    async with trail_of() as trail:
        here, is_stopped = asyncio.Event(), asyncio.Event()

        @tool(effect=ToolEffect.READ)
        async def fetch(n: int) -> int:
            """Fetch something: the first call ends in the grace, the second never does."""
            here.set()
            await (is_stopped if n == 0 else asyncio.Event()).wait()
            return n

        limits = Limits(stop_grace=0.2, max_concurrent_tools=2)
        agent = asking(fetch, script=several("fetch", 3)).with_limits(limits).build()
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await here.wait()
        await again_on(trail).session("s").stop(by="ops")
        is_stopped.set()
        result = await running
        assert (result.stop_reason, len(result.state.steps)) == ("user_requested", 1)
        assert [(call.position, call.status.value) for call in result.state.steps[0].tool_executions] == [
            (0, "completed"),
            (1, "interrupted"),
            (2, "cancelled"),
        ]


async def test_a_caller_who_is_cancelled_leaves_every_call_closed_and_what_has_ended_is_kept() -> None:
    async with trail_of() as trail:
        began, hang = list[int](), True

        @tool(effect=ToolEffect.READ)
        async def fetch(n: int) -> int:
            """Fetch something; only the first call ever ends."""
            began.append(n)
            if n and hang:
                await asyncio.Event().wait()
            return n

        agent = asking(fetch, script=several("fetch", 3)).build()
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        while len(began) < 3 or not (await trail.session("s").state()).tool_executions[0].is_settled:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        state = await trail.session("s").state()
        assert (state.status, [call.status.value for call in state.tool_executions]) == (
            "paused",
            ["completed", "pending", "pending"],
        )
        hang = False
        result = await trail.session("s").resume(agent)
        assert (result.output, began) == ("done", [0, 1, 2, 1, 2])


@pytest.mark.parametrize("crash", range(1, 7))
async def test_a_crash_anywhere_among_them_repeats_none_whose_end_is_stored(crash: int) -> None:
    ran: list[int] = []

    @tool(effect=ToolEffect.IDEMPOTENT, concurrent=True)
    async def put(n: int) -> int:
        """Put something somewhere, each call at its own time."""
        ran.append(n)
        for _ in range(20 * n):
            await asyncio.sleep(0)
        return n

    agent = asking(put, script=several("put", 3)).build()
    async with trail_of(reach=crash_at("after-append", crash)) as trail:
        with suppress(Crash):
            await trail.run(agent, "go", session="s", key="once")
        other = again_on(trail)
        events = [record.event for record in await other.session("s").events()]
        stored = [event.position for event in events if isinstance(event, ToolExecutionCompleted)]
        before = len(ran)
        result = await other.run(agent, "go", session="s", key="once")
        assert (result.output, [call.text for call in result.state.steps[0].tool_executions]) == (
            "done",
            ["0", "1", "2"],
        )
        assert not set(stored) & set(ran[before:])


async def test_an_owner_that_lost_the_session_reports_each_call_that_still_ended() -> None:
    scene, taken = Scene(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def fetch(n: int) -> int:
        """Fetch something; the second call ends when the session has been taken over."""
        if n == 1:
            await taken.wait()
        return n

    async def take_over() -> None:
        taken.set()
        await scene.other.resume(agent, take_over=True)

    agent = asking(fetch, script=several("fetch", 2)).build()
    scene.once_before(ToolExecutionCompleted, take_over)
    with pytest.raises(OwnershipLost):
        await scene.owner.run(agent, "Go.", session=NAME)
    late = [e for e in await scene.events(ToolExecutionSettledLate) if isinstance(e, ToolExecutionSettledLate)]
    assert sorted((e.effect_id[-1], e.result, e.segment) for e in late) == [("0", 0, 1), ("1", 1, 1)]


async def test_an_owner_that_lost_the_session_says_so_though_what_it_cuts_off_has_ended_for_the_new_owner() -> None:
    scene, taken = Scene(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def fetch(n: int) -> int:
        """Fetch something; the second call of the first owner does not end by itself."""
        if n == 1 and not taken.is_set():
            await asyncio.Event().wait()
        return n

    async def take_over() -> None:
        taken.set()
        assert (await scene.other.resume(agent, take_over=True)).output == "done"

    agent = asking(fetch, script=several("fetch", 2)).build()
    scene.once_before(ToolExecutionCompleted, take_over)
    with pytest.raises(OwnershipLost):
        await scene.owner.run(agent, "Go.", session=NAME)
    late = [e for e in await scene.events(ToolExecutionSettledLate) if isinstance(e, ToolExecutionSettledLate)]
    assert [(e.effect_id[-1], e.result) for e in late] == [("0", 0)]


async def test_what_a_tool_raises_that_is_no_error_of_its_own_ends_the_run_and_leaves_no_other_call_running() -> None:
    ended: list[str] = []

    @tool(effect=ToolEffect.READ)
    async def fetch(n: int) -> int:
        """Be interrupted by the person at the keyboard."""
        if n == 0:
            raise KeyboardInterrupt
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("second")
        return n

    with pytest.raises(KeyboardInterrupt):
        await run(asking(fetch, script=several("fetch", 2)).build())
    assert ended == ["second"]


async def test_those_that_were_cut_off_and_have_effects_are_never_repeated() -> None:
    ran: list[int] = []

    @tool(concurrent=True)
    async def pay(n: int) -> int:
        """Pay, beside another payment."""
        ran.append(n)
        return n

    agent = asking(pay, script=several("pay", 2)).build()
    async with trail_of(reach=crash_at("after-tool")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        other = again_on(trail)
        result = await other.run(agent, "go", session="s")
        events = [record.event for record in await other.session("s").events()]
    assert (result.output, sorted(ran)) == ("done", [0, 1])
    lost = [event.position for event in events if isinstance(event, ToolExecutionInterrupted)]
    assert lost == [0, 1]
