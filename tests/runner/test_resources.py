"""What is opened for a run: in each segment, before the first effect, left after the last, and never recorded."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, HookType, Limits, Steptrail, ToolContext, ToolEffect, tool
from steptrail.errors import ConfigurationError
from steptrail.events import InferenceStarted, ToolExecutionFailed, WaitStarted
from steptrail.hooks import HookState
from steptrail.output import OutputContext
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.workflow import RunOptions, Workflow
from tests.runner.kit import HandClock, again_on, hook, run, trail_of

SECRET = "s3cr3t-of-the-shop"  # noqa: S105 - looked for in the file


class Caller(BaseModel):
    tenant: str


@dataclass
class Shop:
    tenant: str
    password: str = SECRET


class Opener:
    """Opens a shop, and notes what happens in `log`. As often as `down` says, it raises in its place."""

    def __init__(self, down: int = 0) -> None:
        self.log, self.down, self.closed = list[str](), down, asyncio.Event()

    def __call__(self, caller: Caller) -> "Any":
        return self._shop(caller)

    @asynccontextmanager
    async def _shop(self, caller: Caller) -> AsyncGenerator[Shop]:
        if self.down:
            self.down -= 1
            self.log.append("refused")
            raise ConnectionError(f"postgresql://shop:{SECRET}@db refused")
        async with AsyncExitStack() as stack:
            for name in ("pool", "client"):
                self.log.append(f"open {name} of {caller.tenant}")
                stack.callback(self.log.append, f"close {name}")
            yield Shop(caller.tenant)


def desk(opener: Callable[[Caller], Any], *script: Reply) -> AgentBuilder[str, Caller]:
    log: list[str] = getattr(opener, "log", [])

    @tool(effect=ToolEffect.READ)
    async def orders(context: ToolContext[Caller, Shop]) -> str:
        """Look at the orders."""
        log.append(f"orders of {context.resources.tenant}")
        return "none"

    builder = AgentBuilder("desk").with_model(ScriptedModel(script))
    return builder.with_context(Caller).with_resources(opener).with_tools(orders)


OPENED, CLOSED = ["open pool of acme", "open client of acme"], ["close client", "close pool"]
ACME = Caller(tenant="acme")


async def test_they_are_opened_once_and_left_in_order_after_the_last_effect() -> None:
    opener = Opener()
    builder = desk(opener, call("orders"), call("orders"), "done")
    for moment in (HookType.EXECUTION_START, HookType.EXECUTION_END):
        name = moment.value

        def noted(state: HookState, name: str = name) -> None:
            opener.log.append(f"{name} of {state.resources.tenant}")

        builder.with_hook(moment, hook(name, noted))
    async with trail_of() as trail:
        assert (await trail.run(builder.build(), "go", context=ACME)).output == "done"
    at_work = ["execution_start of acme", "orders of acme", "orders of acme", "execution_end of acme"]
    assert opener.log == [*OPENED, *at_work, *CLOSED]


async def test_validators_read_them() -> None:
    opener = Opener()

    def checked(answer: int, context: OutputContext[Caller, Shop]) -> int:
        opener.log.append(f"validated for {context.resources.tenant}")
        return answer

    agent = desk(opener, '{"value": 3}').with_output(int, mode="native").with_output_validator(checked).build()
    async with trail_of() as trail:
        assert (await trail.run(agent, "go", context=ACME)).output == 3
    assert opener.log == [*OPENED, "validated for acme", *CLOSED]


async def test_a_run_that_fails_leaves_them() -> None:
    opener = Opener()
    async with trail_of() as trail:
        result = await trail.run(desk(opener, RuntimeError("no")).build(), "go", context=ACME)
    assert (result.status, opener.log) == ("failed", [*OPENED, *CLOSED])


async def test_a_pause_leaves_them_and_a_resume_opens_them_anew() -> None:
    opener = Opener()
    async with trail_of() as trail:
        builder = desk(opener, call("orders"), "done")

        @tool(effect=ToolEffect.READ)
        async def halt() -> str:
            """Pause."""
            await trail.session("s").pause()
            return "asked"

        agent = builder.with_tools(halt).with_model(ScriptedModel([call("halt"), call("orders"), "done"])).build()
        paused = await trail.run(agent, "go", session="s", context=ACME)
        assert (paused.status, opener.log) == ("paused", [*OPENED, *CLOSED])
        opener.log.clear()
        assert (await trail.session("s").resume(agent)).output == "done"
    assert opener.log == [*OPENED, "orders of acme", *CLOSED]


async def test_a_cancelled_caller_leaves_them_after_its_call_has_ended() -> None:
    opener, begun = Opener(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def hang() -> str:
        """Never end."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            opener.log.append("call cut")
        return ""

    agent = desk(opener).with_tools(hang).with_model(ScriptedModel([call("hang")])).build()
    async with trail_of() as trail:
        task = asyncio.create_task(trail.run(agent, "go", session="s", context=ACME))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert opener.log == [*OPENED, "call cut", *CLOSED]
        assert (await trail.session("s").state()).status == "paused"


async def test_a_worker_that_drains_leaves_them() -> None:
    opener, begun = Opener(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def hang() -> str:
        """Never end."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = desk(opener).with_tools(hang).with_model(ScriptedModel([call("hang")])).build()
    async with trail_of() as trail:
        await trail.start(agent, "go", session="s", context=ACME)
        async with trail.work(agent, grace=0.0):
            await begun.wait()
        assert opener.log == [*OPENED, *CLOSED]


async def test_a_failure_to_open_them_is_a_wait_that_ends_with_the_next_try(caplog: pytest.LogCaptureFixture) -> None:
    opener, clock = Opener(down=3), HandClock()
    agent = desk(opener, call("orders"), "done").build()
    async with trail_of(clock) as trail:
        result = await trail.run(agent, "go", session="s", context=ACME)
        waits: list[float] = []
        for _ in range(3):
            assert (result.status, opener.log[-1]) == ("waiting", "refused")
            (row,) = await trail.runs(waits_for="resources")
            assert row.due_at is not None
            waits.append((row.due_at - clock.utc()) / 1e6)
            assert (
                "its resources, which could not be opened (ConnectionError)" in (await trail.session("s").why()).verdict
            )
            tries = len(opener.log)
            assert (await trail.session("s").resume(agent)).status == "waiting"
            assert len(opener.log) == tries  # it is not due yet
            clock.advance(waits[-1])
            assert [each.session_id for each in await trail.due()] == ["s"]
            result = await trail.session("s").resume(agent)
        events = [each.event for each in await trail.session("s").events()]
    assert (result.output, waits) == ("done", [1.0, 2.0, 4.0])
    assert opener.log == ["refused"] * 3 + [*OPENED, "orders of acme", *CLOSED]
    assert [event.problem for event in events if isinstance(event, WaitStarted)] == ["ConnectionError"] * 3
    assert len([event for event in events if isinstance(event, InferenceStarted)]) == 2
    assert "session s: its resources could not be opened: ConnectionError" in caplog.text


async def test_the_delay_begins_anew_after_they_were_open() -> None:
    opener, clock = Opener(down=2), HandClock()
    agent = desk(opener, call("orders"), "done", "again").build()
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s", context=ACME)
        clock.advance(1)
        await trail.session("s").resume(agent)
        clock.advance(2)
        assert (await trail.session("s").resume(agent)).output == "done"
        opener.down = 1
        await trail.session("s").send(agent, "more")
        (row,) = await trail.runs()
        assert row.due_at == clock.utc() + 1_000_000


async def test_the_delay_begins_when_it_is_known_that_they_cannot_be_opened() -> None:
    clock = HandClock()

    @asynccontextmanager
    async def slow(_: Caller) -> AsyncGenerator[Shop]:
        clock.advance(30)  # for so long an answer was waited for
        raise ConnectionError("the shop is away")
        yield Shop("never")

    async with trail_of(clock) as trail:
        await trail.run(desk(slow, "done").build(), "go", session="s", context=ACME)
        (row,) = await trail.runs()
    assert row.due_at == clock.utc() + 1_000_000


async def test_a_hook_at_the_boundary_waits_for_them_too() -> None:
    opener, clock, seen = Opener(down=1), HandClock(), list[str]()
    builder = desk(opener, "done").with_hook(
        HookType.EXECUTION_START, hook("look", lambda state: seen.append(state.resources.tenant))
    )
    async with trail_of(clock) as trail:
        assert (await trail.run(builder.build(), "go", session="s", context=ACME)).status == "waiting"
        assert seen == []
        clock.advance(1)
        assert (await trail.session("s").resume(builder.build())).output == "done"
    assert seen == ["acme"]


async def test_a_stop_ends_a_run_that_waits_for_them_and_its_hooks_find_nothing_open() -> None:
    opener, clock = Opener(down=9), HandClock()
    builder = desk(opener, "done").with_hook(HookType.STOP, hook("look", lambda state: state.resources and None))
    async with trail_of(clock) as trail:
        await trail.run(builder.build(), "go", session="s", context=ACME)
        result = await trail.session("s").stop(by="ana")
        assert (result.status, result.stop_reason) == ("completed", "user_requested")


@pytest.mark.usefixtures("soon")
async def test_a_stop_while_they_are_opened_does_not_wait_for_them() -> None:
    begun = asyncio.Event()
    log: list[str] = []

    @asynccontextmanager
    async def slow(caller: Caller) -> AsyncGenerator[Shop]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("given up")
        yield Shop("never")

    builder = desk(slow, "done").with_limits(Limits(stop_grace=0.0))
    async with trail_of() as trail:
        task = asyncio.create_task(trail.run(builder.build(), "go", session="s", context=ACME))
        await begun.wait()
        await trail.session("s").stop(by="ana")
        result = await task
        assert (result.status, result.stop_reason, log) == ("completed", "user_requested", ["given up"])


async def test_one_that_cannot_be_closed_is_logged_and_the_result_stays(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken(caller: Caller) -> AsyncGenerator[Shop]:
        yield Shop("acme")
        raise OSError("the connection is gone")

    with caplog.at_level(logging.WARNING, "steptrail.runs"):
        async with trail_of() as trail:
            assert (await trail.run(desk(broken, "done").build(), "go", session="s", context=ACME)).output == "done"
    assert "session s: its resources could not be closed: OSError" in caplog.text


async def test_the_one_who_enters_them_is_the_one_who_leaves_them() -> None:
    tasks: list[object] = []

    @asynccontextmanager
    async def noted(caller: Caller) -> AsyncGenerator[Shop]:
        tasks.append(asyncio.current_task())
        yield Shop("acme")
        tasks.append(asyncio.current_task())

    async with trail_of() as trail:
        await trail.run(desk(noted, "done").build(), "go", context=ACME)
    assert tasks[0] is tasks[1]


async def test_nothing_of_them_is_in_the_file(tmp_path: Path) -> None:
    opener, clock = Opener(down=1), HandClock()
    agent = desk(opener, call("orders"), "done").build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}", clock=clock) as trail:
        await trail.run(agent, "go", session="s", context=ACME)
        clock.advance(1)
        assert (await trail.session("s").resume(agent)).output == "done"
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("runs.db*") if file.is_file())
    assert (b"acme" in stored, SECRET.encode() in stored) == (True, False)


async def test_an_agent_has_fakes_in_a_test() -> None:
    opener, fake = Opener(), Opener()
    agent = desk(opener, "done").build()
    async with trail_of() as trail:
        await trail.run(agent.replace(resources=fake), "go", context=ACME)
    assert (opener.log, fake.log) == ([], [*OPENED, *CLOSED])


async def test_without_a_context_they_are_opened_with_nothing() -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def opened(nothing: None) -> AsyncGenerator[str]:
        seen.append(nothing)
        yield "open"

    agent = AgentBuilder("plain").with_model(ScriptedModel(["done"])).with_resources(opened).build()
    assert (await run(agent)).result.output == "done"
    assert seen == [None]


async def test_a_tool_that_reads_them_is_refused_where_there_are_none() -> None:
    @tool
    def orders(context: ToolContext[Any, Shop]) -> str:
        """Look."""
        return context.resources.tenant

    builder = AgentBuilder("desk").with_model(ScriptedModel(["hi"])).with_tools(orders)
    with pytest.raises(ConfigurationError, match="'orders' of agent 'desk' reads resources, and the agent opens none"):
        builder.build()


async def test_a_hook_that_reads_them_where_there_are_none_is_told() -> None:
    builder = AgentBuilder("desk").with_model(ScriptedModel(["hi"]))
    builder.with_hook(HookType.BEFORE_STEP, hook("look", lambda state: state.resources and None))
    ended = await run(builder.build())
    assert ended.ending == ("failed", "error")
    assert "no resources are open for this run" in str(ended.why.decided_by)
    assert not ended.all(ToolExecutionFailed)


def test_what_opens_nothing_is_refused_where_it_is_given() -> None:
    builder = AgentBuilder("desk")

    async def coroutine(nothing: None) -> None: ...
    async def generator(nothing: None) -> AsyncGenerator[None]:
        yield

    @contextmanager
    def blocking(nothing: None) -> Generator[None]:
        yield

    @asynccontextmanager
    async def opening(nothing: None) -> AsyncGenerator[None]:
        yield

    @asynccontextmanager
    async def without() -> AsyncGenerator[None]:
        yield

    for wrong, said in (
        (blocking, "returns no async context manager: write it with `async def`"),
        (opening(None), "give the function that returns it, without calling that"),
        (coroutine, "returns no async context manager: write @asynccontextmanager"),
        (generator, "returns no async context manager: write @asynccontextmanager"),
        (without, "is called with the context of the run, or None"),
        (7, "opens no resources: give a function"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            builder.with_resources(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_a_later_process_opens_its_own() -> None:
    first, second, clock = Opener(down=1), Opener(), HandClock()
    async with trail_of(clock) as trail:
        await trail.run(desk(first, "done").build(), "go", session="s", context=ACME)
        clock.advance(1)
        other = again_on(trail, clock)
        assert (await other.session("s").resume(desk(second, "done").build())).output == "done"
    assert (first.log, second.log) == (["refused"], [*OPENED, *CLOSED])


async def test_one_that_does_not_come_to_be_open_is_not_waited_for_longer_than_the_run_may_take() -> None:
    log: list[str] = []

    @asynccontextmanager
    async def stuck(caller: Caller) -> AsyncGenerator[Shop]:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("given up")
        yield Shop("never")

    @asynccontextmanager
    async def stuck_for_a_flow(_: object) -> AsyncGenerator[Shop]:
        async with stuck(ACME) as shop:
            yield shop

    flow = (
        Workflow("f", options=RunOptions(timeout=0.05)).function("a", lambda seen: 1).with_resources(stuck_for_a_flow)
    )
    async with trail_of() as trail:
        agent = desk(stuck, "done").with_timeout(0.05).build()
        assert (await trail.run(agent, "go", session="s", context=ACME)).status == "waiting"
        assert "could not be opened (TimeoutError)" in (await trail.session("s").why()).verdict
        assert (await trail.run(flow.build(), session="f")).status == "waiting"
        verdict = (await trail.flow("f").why()).verdict
        assert verdict.startswith("waiting for another try to open its resources (TimeoutError) until 20")
    assert log == ["given up"] * 2
