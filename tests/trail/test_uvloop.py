"""uvicorn gives a service uvloop wherever it is installed: everything that has to do with time and threads, on that."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import uvloop

from steptrail import AgentBuilder, Limits, Steptrail, tool
from steptrail.errors import ErrorPolicy
from steptrail.events import ExecutionFinished
from steptrail.testing import ScriptedModel, call


def on_uvloop(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert isinstance(runner.get_loop(), uvloop.Loop)
        runner.run(scenario)


@tool
def blocks(seconds: float) -> str:
    """Block the thread."""
    time.sleep(seconds)
    return threading.current_thread().name


@tool(timeout=0.05)
async def hangs() -> str:
    """Hang."""
    await asyncio.sleep(3600)
    return "never"


def test_tools_block_hang_and_are_cut_off_by_their_time(store_url: str) -> None:
    async def scenario() -> None:
        model = ScriptedModel([call("blocks", seconds=0.01), call("hangs"), "done"])
        builder = AgentBuilder("a").with_model(model).with_tools(blocks, hangs)
        agent = builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).build()
        async with Steptrail.open(store_url) as trail:
            state = (await trail.run(agent, "Go.", session="s")).state
            blocked, hung = [each for step in state.steps for each in step.tool_executions]
            assert blocked.result != threading.current_thread().name
            assert hung.status == "interrupted"

    on_uvloop(scenario())


def test_a_run_is_followed_stopped_and_left_to_a_worker(store_url: str) -> None:
    async def scenario() -> None:
        began = asyncio.Event()

        @tool
        async def waits() -> str:
            """Wait."""
            began.set()
            await asyncio.sleep(3600)
            return "never"

        builder = AgentBuilder("a").with_model(ScriptedModel([call("waits"), "done"])).with_tools(waits)
        agent = builder.with_limits(Limits(stop_grace=0.01)).build()
        async with Steptrail.open(store_url) as trail:
            running = asyncio.create_task(trail.run(agent, "Go.", session="s"))
            await began.wait()
            await trail.session("s").stop(by="ana")
            assert (await running).stop_reason == "user_requested"
            async with trail.subscribe(session="s", follow=False) as entries:
                seen = [entry.record.version async for entry in entries]
            assert seen == list(range(1, (await running).state.version + 1))
            plain = AgentBuilder("b").with_model(ScriptedModel(["worked"])).build()
            begun = await trail.start(plain, "Go.", session="w")
            async with trail.work(plain), trail.subscribe(session="w") as entries:
                async for entry in entries:
                    if isinstance(entry.record.event, ExecutionFinished):
                        break
            assert (await begun.result()).output == "worked"

    on_uvloop(scenario())
