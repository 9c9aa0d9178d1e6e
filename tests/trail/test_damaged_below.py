"""A damaged session below a run keeps nobody from asking the others there to pause or to stop."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.shared.parent import session_for_call
from steptrail.testing import call
from steptrail.tools import SubagentTool
from tests.runner.families import PATIENCE, asks, boss, named

DAMAGE = (
    "UPDATE events SET state = '{' WHERE stream = (SELECT number FROM streams WHERE id = ?) "
    "AND version = (SELECT min(version) FROM events WHERE stream = (SELECT number FROM streams WHERE id = ?))"
)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("what", ["pause", "stop"])
async def test_the_others_are_asked_all_the_same(what: Literal["pause", "stop"], tmp_path: Path) -> None:
    inside, all_there, go_on = Counter[str](), asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def hold() -> str:
        """Hold."""
        inside["hold"] += 1
        if inside["hold"] == 3:
            all_there.set()
        await go_on.wait()
        return "held"

    clerk = named("clerk", call("hold"), "held it").with_tools(hold).build()
    chief = boss([SubagentTool(clerk)], asks("clerk", "a", "b", "c"), "Done.").build()
    first, *others = (session_for_call(f"s:1:1:{position}") for position in range(3))
    path = tmp_path / "s.db"
    async with Steptrail.open(f"sqlite:///{path}") as trail, Steptrail.open(f"sqlite:///{path}") as elsewhere:
        running = asyncio.create_task(trail.run(chief, "Go.", session="s"))
        async with asyncio.timeout(PATIENCE):
            await all_there.wait()
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(DAMAGE, (f"agent:{first}",) * 2)
            session = elsewhere.session("s")
            await (session.pause(by="ana") if what == "pause" else session.stop(by="ana"))
            states = [await elsewhere.session(each).state() for each in others]
            asked = [state.pause_request if what == "pause" else state.stop_request for state in states]
            assert [request is not None and request.by for request in asked] == ["ana", "ana"]
            go_on.set()
            await running
