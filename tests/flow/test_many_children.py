"""Many streams below one run: each of them costs the run the same, however many others there are."""

import asyncio
from typing import Any

import pytest

from steptrail.domain.shared.run import ExecutionStatus
from steptrail.workflow import Envelope, RunOptions, Workflow
from tests.flow.kit import events_of
from tests.runner.families import PATIENCE
from tests.runner.kit import trail_of


@pytest.mark.usefixtures("soon")
async def test_the_children_that_are_stopped_with_a_run_do_not_each_read_its_whole_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, all_there, found = list[object](), asyncio.Event(), 0

    async def work(seen: Envelope) -> None:
        if seen.input == "hold":
            held.append(seen)
            if len(held) == 8:
                all_there.set()
            await asyncio.Event().wait()

    inner = Workflow("inner").function("work", work).build()
    flow = Workflow("t").map("m", over="items", flow=inner, input="{{ item }}", concurrency=8).build()
    given, options = {"items": ["go"] * 60 + ["hold"] * 8}, RunOptions(stop_grace=0.0)
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(flow, vars=given, session="f", options=options))
        async with asyncio.timeout(PATIENCE):
            await all_there.wait()
        read = trail.store.read

        async def counted(stream: str, **how: Any) -> Any:
            nonlocal found
            page = await read(stream, **how)
            found += len(page.records) if stream == "flow:f" else 0
            return page

        monkeypatch.setattr(trail.store, "read", counted)
        await trail.flow("f").stop(by="ana")
        assert (await running).status is ExecutionStatus.STOPPED
        monkeypatch.undo()
        assert found < 3 * len(await events_of(trail))
