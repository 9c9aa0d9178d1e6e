"""How long nodes go on beside one that failed: those that change something for the grace, whatever others do."""

import asyncio
from collections.abc import Mapping

from steptrail import Steptrail, ToolEffect
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome, ToolSucceeded
from steptrail.workflow import RunOptions, Workflow


class Stubborn:
    """A tool of somebody's own that reads, and ends only when it is let go, whoever cancels it."""

    spec = ToolSpec(name="read", effect=ToolEffect.READ)

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        del arguments, raw, context, timeout, capture
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.may_end.wait()
        return ToolSucceeded("late")


async def test_a_node_that_only_reads_and_does_not_end_leaves_the_others_no_more_than_their_grace() -> None:
    stubborn = Stubborn()

    async def write(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stubborn.may_end.set()

    async def fail(_: object) -> None:
        await stubborn.begun.wait()
        raise RuntimeError("no")

    flow = (
        Workflow("t")
        .tool("read", stubborn)
        .function("write", write, effect="idempotent")
        .function("fail", fail)
        .noop("end")
        .edge(("read", "write", "fail"), "end")
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail, asyncio.timeout(30):
        result = await trail.run(flow, session="f", options=RunOptions(stop_grace=1.0))
    assert result.error is not None
    assert (result.status, result.error.node_id) == ("failed", "fail")
