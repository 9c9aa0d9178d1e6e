"""Steptrail's workflow, or the floor that writes its rows: by the same rules as the peers."""

from collections.abc import Mapping
from typing import cast

from benchmarks.peers.child import Figures, Task, script
from benchmarks.peers.run_steptrail import measured
from benchmarks.texts import QUESTION, TOOL, arguments, reply_text, tool_result
from steptrail import Steptrail, ToolEffect, tool
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow


@tool(name=TOOL, effect=ToolEffect.KEYED)
async def _lookup(step: int, table: str, query: str) -> str:
    """Look rows up, and leave a trace in the world."""
    return tool_result(step)


def measure(task: Task) -> Figures:
    """Run the workflow in so many chains at once."""
    flow = _flow()
    return measured(task, lambda trail, lane: _chain(trail, flow, task.steps, lane))


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
