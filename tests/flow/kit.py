"""Runs workflows on a store in memory. The clocks stand still, and are put forward to the end of each wait.

`World` counts what was done outside, and fails as often as it is told to.
"""

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.flow.events import FlowEvent
from steptrail.tools import OnUnknown
from steptrail.workflow import BuiltWorkflow, FlowResult, RunOptions
from tests.runner.kit import HandClock

T = TypeVar("T")

LEAVES = RunOptions(longest_wait=0.0)
"""Options with which a process stays for no wait."""


class World:
    """Counts what was done outside, by name, and raises what it is told to."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.fails: dict[str, list[BaseException | None]] = {}
        self.breaks: dict[str, BaseException] = {}
        self.ids: list[str] = []
        self.entered, self.gate = asyncio.Event(), asyncio.Event()
        self.holds: str | None = None

    async def do(self, name: str) -> str:
        """Do it, or raise the next of its failures."""
        self.done[name] += 1
        self.ids.append(name)
        if name == self.holds:
            self.entered.set()
            await self.gate.wait()
        if name in self.breaks:
            raise self.breaks[name]
        left = self.fails.get(name, [])
        if left and (error := left.pop(0)) is not None:
            raise error
        return f"{name} is done"

    def tool(
        self,
        effect: ToolEffect = ToolEffect.IDEMPOTENT,
        on_unknown: OnUnknown = OnUnknown.TELL,
        *,
        approval: bool = False,
    ) -> Any:
        """Return a tool that does what its argument names."""

        @tool(effect=effect, on_unknown=on_unknown, approval=approval)
        async def act(name: str) -> str:
            """Act."""
            return await self.do(name)

        return act

    def function(self, name: str) -> Callable[[Any], Any]:
        """Return a function that does one thing."""

        async def act(_: object) -> str:
            return await self.do(name)

        return act


def calls_of(work: Callable[[], T]) -> tuple[T, int]:
    """Do something, and return its result with how many functions of Python were called for it."""
    called = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal called
        called += event == "call"

    gc.disable()  # what other tests left behind calls functions of its own when it is collected
    sys.setprofile(note)
    try:
        return work(), called
    finally:
        sys.setprofile(None)
        gc.enable()


async def run_to_rest(
    trail: Steptrail,
    clock: HandClock,
    flow: BuiltWorkflow,
    given: object = None,
    *,
    session: str = "f",
    options: RunOptions = LEAVES,
) -> FlowResult:
    """Run a workflow, and sit out each of its waits that ends by itself within a day."""
    result = await trail.run(flow, given, session=session, options=options)
    for _ in range(50):
        wait = result.state.run.wait if result.state.run is not None else None
        if wait is None or wait.until is None or wait.until > clock.utc() + 86_400 * 10**6:
            return result
        clock.advance((wait.until - clock.utc()) / 1e6)
        result = await trail.flow(session).resume(flow)
    raise AssertionError("it waits for ever")


async def events_of(trail: Steptrail, session: str = "f") -> list[FlowEvent]:
    """Return the events of a run."""
    return [record.event for record in await trail.flow(session).events()]


def named(events: list[FlowEvent]) -> list[str]:
    """Return the types of events without their versions."""
    return [event.TYPE.removesuffix(".v1") for event in events]
