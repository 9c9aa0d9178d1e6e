"""What tests of workers need: an agent that notes what it does, and stores whose workers look or are woken."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from steptrail import Agent, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel.engine import Engine
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import call
from tests.runner.kit import Crash, agent_of

PATIENCE = 30.0
ON_FILES_ONLY = pytest.mark.parametrize("place", ["sqlite", "sqlite, woken by mischief"], indirect=True)
"""Marks a test of what workers decide by code and context, which no server and no engine of it does otherwise."""


class Desk:
    """An agent whose one tool notes each call, and what it is at now; it waits at its gate."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.inside, self.most = 0, 0
        self.gate = asyncio.Event()
        self.gate.set()

        @tool(effect=ToolEffect.IDEMPOTENT)
        async def serve(context: ToolContext) -> str:
            """Serve somebody."""
            self.ran[context.effect_id] += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await asyncio.sleep(0.01)
                await self.gate.wait()
            finally:
                self.inside -= 1
            return "served"

        @tool(approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        self.tools = serve, pay

    def agent(self, *, name: str = "calc", first: str = "serve") -> Agent:
        built = agent_of([call(first), "Done."]).with_tools(*self.tools).build()
        assert built.name == name
        return built


async def left_by_a_crash(url: str, agent: Agent, *sessions: str) -> None:
    def reach(point: str) -> None:
        if point == "before-inference":
            raise Crash(point)

    # One process: opening a store on a server takes longer than all else that is done here.
    async with Steptrail(Environment(store=open_store(url), reach=reach)) as dying:
        for session in sessions:
            with pytest.raises(Crash):
                await dying.run(agent, "go", session=session)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.01)


async def ended(trail: Steptrail, *sessions: str) -> None:
    """Wait until these sessions, and other runs by their names, have completed."""
    async with asyncio.timeout(PATIENCE):
        for session in sessions:
            while (await trail.handle(session).state()).status is not ExecutionStatus.COMPLETED:
                # Each look folds the session, and a server is asked for it.
                await asyncio.sleep(0.05)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Steptrail]:
    async with asyncio.timeout(2 * PATIENCE), Steptrail.open(url) as trail:
        yield trail


class Place:
    """A store, and the engine that wakes its workers, if one does."""

    def __init__(self, url: str, engine: Callable[[], Engine | None]) -> None:
        self.url, self.engine = url, engine

    def open(self) -> Steptrail:
        return Steptrail.open(self.url, engine=self.engine())

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Steptrail]:
        async with asyncio.timeout(2 * PATIENCE), self.open() as trail:
            yield trail
