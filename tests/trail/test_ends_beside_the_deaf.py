"""A loop that ends does not wait for what was left behind because it takes no notice of its cancellation."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from steptrail import Agent, ErrorPolicy, Steptrail, tool
from steptrail.events import LogEntry
from steptrail.projections import Changes, Projection
from steptrail.testing import call
from tests.runner.kit import agent_of
from tests.trail.test_blocking_end import PATIENCE, in_a_thread

MEMORY = "sqlite:///:memory:"


async def take_no_notice() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


def with_a_tool() -> Agent:
    @tool(timeout=0.01)
    async def deaf() -> None:
        """Take no notice of being cancelled."""
        await take_no_notice()

    builder = agent_of([call("deaf"), "done"]).with_error_policy(ErrorPolicy.ignore_tool_errors())
    return builder.with_tools(deaf).build()


def with_resources() -> Agent:
    @asynccontextmanager
    async def deaf(_: object) -> AsyncGenerator[None]:
        yield
        await take_no_notice()

    return agent_of(["done"]).with_resources(deaf).build()


def with_resources_that_never_open() -> Agent:
    @asynccontextmanager
    async def deaf(_: object) -> AsyncGenerator[None]:
        await take_no_notice()
        yield

    return agent_of(["done"]).with_resources(deaf).with_timeout(1).build()


AGENTS = pytest.mark.parametrize(
    ("agent", "output"),
    [(with_a_tool, "done"), (with_resources, "done"), (with_resources_that_never_open, None)],
)


@pytest.fixture(autouse=True)
def impatient_with_resources(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.runtime.agent.resources.PATIENCE", 0.05)


@AGENTS
def test_a_loop_that_has_run_an_agent_ends(agent: Callable[[], Agent], output: str | None) -> None:
    async def once() -> str | None:
        async with Steptrail.open(MEMORY) as trail:
            return (await trail.run(agent(), "go")).output

    assert in_a_thread(lambda: asyncio.run(once())).result(PATIENCE) == output


@AGENTS
def test_a_blocking_trail_that_has_run_an_agent_is_closed(agent: Callable[[], Agent], output: str | None) -> None:
    def once() -> str | None:
        with Steptrail.open_sync(MEMORY) as trail:
            return trail.run(agent(), "go").output

    assert in_a_thread(once).result(PATIENCE) == output


def test_given_a_projection_that_does_not_return_then_the_loop_of_who_keeps_it_going_ends(tmp_path: Path) -> None:
    is_at_work, may_return = threading.Event(), threading.Event()

    class Deaf(Projection[None]):
        name, version, prefixes, tables = "deaf", 1, ("agent:",), ()

        def begin(self, stream: str) -> None:
            del stream

        def apply(self, fold: None, entry: LogEntry, changes: Changes) -> None:
            is_at_work.set()
            may_return.wait(PATIENCE)

    async def program() -> None:
        async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}", projections=[Deaf()]) as trail:
            await trail.run(agent_of(["done"]).build(), "go")
            async with trail.views.kept_going():
                await asyncio.to_thread(is_at_work.wait, PATIENCE)

    ended = in_a_thread(lambda: asyncio.run(program()))
    try:
        ended.result(PATIENCE / 2)
    finally:
        may_return.set()
