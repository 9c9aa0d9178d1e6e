"""A run of a workflow that has much to do at once, and who else has the event loop meanwhile."""

import asyncio
import sys
from types import FrameType

from steptrail.domain.flow.next_effects import next_effects
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.workflow import Workflow
from tests.flow.kit import LEAVES
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
