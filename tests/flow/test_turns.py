"""A run of a workflow that has much to do at once, and who else has the event loop meanwhile."""

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from steptrail import ToolEffect, tool
from steptrail.domain.flow.next_effects import next_effects
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.storable import storable
from steptrail.runtime.flow.values import GivenValues
from steptrail.workflow import Envelope, Update, Workflow
from tests.flow.kit import LEAVES
from tests.harness.beside_the_loop import beside_the_loop
from tests.runner.kit import trail_of


async def test_others_have_the_event_loop_while_a_run_asks_hundreds_of_people() -> None:
    flow, asked = Workflow("t", options=LEAVES), [0]
    for number in range(300):
        flow = flow.human(f"ask{number}")

    async def others() -> None:
        while True:
            asked.append(0)
            await asyncio.sleep(0)

    def note(frame: FrameType, event: str, _: object) -> None:
        asked[-1] += event == "call" and frame.f_code is next_effects.__code__

    async with trail_of() as trail:
        beside = asyncio.create_task(others())
        sys.setprofile(note)
        try:
            result = await trail.run(flow.build(), session="f")
        finally:
            sys.setprofile(None)
            beside.cancel()
    assert result.status is ExecutionStatus.WAITING
    assert sum(asked) > 600
    assert max(asked) <= 140


async def test_others_have_the_event_loop_while_what_a_node_returned_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("steptrail.runtime.flow.calls.function.GivenValues", beside_the_loop(GivenValues))
    monkeypatch.setattr("steptrail.runtime.flow.calls.port.storable", beside_the_loop(storable))

    def rows() -> dict[str, Any]:
        return {"rows": [{"number": number} for number in range(10_000)]}

    async def awaited(envelope: Envelope) -> Update:
        return Update(set=rows())

    @tool(effect=ToolEffect.READ)
    async def listed() -> dict[str, Any]:
        """List the rows."""
        return rows()

    below = Workflow("below", result="rows").function("many", lambda envelope: rows(), output="rows").build()
    flow = (
        Workflow("t", result="of_below")
        .function("awaited", awaited)
        .function("called", lambda envelope: rows(), output="of_function")
        .tool("listed", listed, output="of_tool")
        .flow("below", below, output="of_below")
        .chain("awaited", "called", "listed", "below")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, session="f")
    assert result.output == rows()
    assert result.envelope.vars["rows"] == rows()["rows"]
