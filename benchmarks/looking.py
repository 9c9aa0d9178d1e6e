"""A worker over very many sessions that wait, and over very many that are due for others: what its looks cost.

`python -m benchmarks.looking [WAITING] [DUE] [SECONDS]` prints a table for SQLite and PostgreSQL, of 100,000 sessions
that wait (a third each for a person, for a time far off, and for a session below them) and 10,000 that are due, of an
agent that the worker does not have. It looks once a second, or as often as something is stored: one session is started
every tenth of a second in the busy rows. Sessions are rows of the index, because that is all that a look reads.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing import ScriptedModel
from tests.harness.postgres_server import PostgresServer
from tests.harness.waiting_rows import WaitingRows

_HOUR = 3_600_000_000
_PAUSE_SECONDS = 0.1


class _Counted:
    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.questions = self.rows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        """Count the question and its rows."""
        rows = await self._store.index(asked)
        self.questions, self.rows = self.questions + 1, self.rows + len(rows)
        return rows


async def _measured(url: str, waiting: int, due: int, seconds: float, *, busy: bool) -> str:
    await open_store(url).close()
    rows = WaitingRows(url)
    if waiting:
        await asyncio.to_thread(lambda: rows.add(waiting, later=time.time_ns() // 1_000 + 1_000 * _HOUR))
    if due:
        # A third of these are due; the others are there in the first row as well.
        await asyncio.to_thread(lambda: rows.add(3 * due, later=1, name="others"))
    store = _Counted(open_store(url, durability="normal"))
    agent = AgentBuilder("ours").with_model(ScriptedModel(["Done."])).build()
    async with Steptrail(Environment(store=cast("EventStore", store))) as trail, trail.work(agent):
        await asyncio.sleep(5.0 if due else 2.0)
        questions, read, cpu, began = store.questions, store.rows, time.process_time(), time.monotonic()
        number = 0
        while time.monotonic() - began < seconds:
            if busy:
                await trail.start(agent, "go", session=f"ours-{number}")
                number += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        took = time.monotonic() - began
        cpu = time.process_time() - cpu
    asked, found = (store.questions - questions) / took, (store.rows - read) / took
    share = f"{100 * cpu / took:5.1f} %"
    return f"| {waiting:,} | {due:,} | {number / took:.0f} | {share} | {asked:.1f} | {found:,.0f} |"


async def _all(waiting: int, due: int, seconds: float) -> None:
    cases = [(0, 0, False), (waiting, 0, False), (0, 0, True), (waiting, 0, True), (waiting, due, False)]
    print("| store | wait | due for others | starts a second | of a core | questions a second | rows a second |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder, PostgresServer(settings=()) as server:
        for number, (many, others, busy) in enumerate(cases):
            file = f"sqlite:///{Path(folder) / f'{number}.db'}"
            for name, url in (("SQLite", file), ("PostgreSQL", server.url(server.create_database()))):
                print(f"| {name} {await _measured(url, many, others, seconds, busy=busy)}", flush=True)


def main(waiting: int = 100_000, due: int = 10_000, seconds: float = 10.0) -> None:
    """Measure, and print the table."""
    asyncio.run(_all(waiting, due, seconds))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *map(float, sys.argv[3:4]))
