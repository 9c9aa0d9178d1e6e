"""Steptrail's workflow, or the floor that writes its rows: by the same rules as the peers."""

import asyncio
from collections.abc import Mapping
from typing import cast

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.sqlite_place import SqlitePlace
from benchmarks.texts import QUESTION, TOOL, arguments, reply_text, tool_result
from steptrail import Steptrail, ToolEffect, tool
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow


@tool(name=TOOL, effect=ToolEffect.KEYED)
async def _lookup(step: int, table: str, query: str) -> str:
    """Look rows up, and leave a trace in the world."""
    return tool_result(step)


def measure(task: Task) -> Figures:
    """Run the workflow; the floor then writes what the runs stored, and leaves nothing on the disk."""
    place = SqlitePlace(task.folder)
    figures = asyncio.run(_measured(place.url, task))
    if task.variant == "floor":
        rows = place.rows()
        with watched() as written:
            cost = place.write_floor(rows)
        return Figures(cost, written.syncs)
    figures.bytes = file_bytes(task.folder)
    return figures


async def _measured(url: str, task: Task) -> Figures:
    flow = _flow()
    async with Steptrail.open(url, durability="normal" if task.variant == "normal" else "full") as trail:
        with watched() as figures:
            await asyncio.gather(*(_chain(trail, flow, task.steps, lane) for lane in range(task.sessions)))
    return figures


async def _chain(trail: Steptrail, flow: BuiltWorkflow, times: int, lane: int) -> None:
    for number in range(1, times + 1):
        asked = {"question": QUESTION, "number": number}
        result = await trail.run(flow, asked, session=f"run-{lane:04}-{number:06}")
        if result.status != "completed" or result.output != reply_text(number):
            raise RuntimeError(f"the workflow ended as {result.status} with {result.output!r}")


async def _prepare(envelope: Envelope) -> dict[str, str | int]:
    return arguments(_input(envelope)["number"])


async def _conclude(envelope: Envelope) -> str:
    number = _input(envelope)["number"]
    if envelope.vars["found"] != tool_result(number):
        raise RuntimeError(envelope.vars["found"])
    return reply_text(number)


def _input(envelope: Envelope) -> Mapping[str, int]:
    return cast("Mapping[str, int]", envelope.input)


def _flow() -> BuiltWorkflow:
    wanted = {name: f"{{{{ vars.wanted.{name} }}}}" for name in ("step", "table", "query")}
    return (
        Workflow("benchmark")
        .function("prepare", _prepare, output="wanted")
        .tool("lookup", _lookup, args=wanted, output="found")
        .function("conclude", _conclude, output="said")
        .chain("prepare", "lookup", "conclude")
        .build()
    )


if __name__ == "__main__":
    script(measure)
