"""The program whose writes are recorded: sessions side by side, a body beside its event, closing and opening again.

python -m tests.harness.power_cut_run FILE DURABILITY

It says which event of which session it has been told is stored.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.testing import ScriptedModel, call


@tool
def look(size: int) -> str:
    """Look something up."""
    return "x" * size


def told(session: str, records: Sequence[Recorded[AgentEvent]]) -> None:
    # One system call, so that it stands in the record as one line.
    os.write(1, f"{session} {records[-1].version}\n".encode())


async def main(path: str, durability: Durability) -> None:
    for opened in range(2):
        async with Steptrail.open(f"sqlite:///{path}", durability=durability) as trail:
            await asyncio.gather(*(run(trail, f"s{opened}{n}") for n in range(2)))


async def run(trail: Steptrail, session: str) -> None:
    model = ScriptedModel([call("look", size=10), call("look", size=40_000), "done"])
    agent = AgentBuilder("a").with_model(model).with_tools(look).build()
    await trail.run(agent, "Go.", session=session, on_commit=partial(told, session))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "full" if sys.argv[2] == "full" else "normal"))
