"""A backup that is made while runs go on is a whole store, and what was open in it goes on where it is restored."""

import asyncio
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from steptrail import Agent, Steptrail, ToolContext, ToolEffect, tool
from steptrail.interfaces.cli.main import main
from steptrail.testing import call
from tests.harness.postgres_server import PostgresServer, find_binaries
from tests.runner.kit import agent_of
from tests.trail.workers import ended, until

SESSIONS = [f"s{number}" for number in range(6)]
SHORT = "?lease_seconds=1"


class Till:
    """An agent that pays twice, with the keys of all payments; it waits before the second one while it is shut."""

    def __init__(self, *, is_open: bool) -> None:
        self.paid: Counter[str] = Counter()
        self.waiting = 0
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    def agent(self) -> Agent:
        @tool(effect=ToolEffect.KEYED)
        async def pay(last: bool, context: ToolContext) -> str:
            """Pay."""
            self.paid[context.effect_id] += 1
            if last:
                self.waiting += 1
                await self.gate.wait()
            return "paid"

        return agent_of([call("pay", last=False), call("pay", last=True), "Done."]).with_tools(pay).build()


async def backed_up_amid_runs(url: str, copy: Callable[[], None]) -> Counter[str]:
    """Run sessions, make the copy while each waits in its second payment, and end them; return what was paid."""
    till = Till(is_open=False)
    async with Steptrail.open(url) as trail:
        await trail.start(till.agent(), "before", session="early")
        async with trail.work(till.agent()):
            await until(lambda: till.waiting == 1)
            till.gate.set()
            await ended(trail, "early")
            till.gate.clear()
            async with trail.follower("ledger") as follower:
                await follower.keep((await anext(aiter(follower))).position)
            for name in SESSIONS:
                await trail.start(till.agent(), "pay", session=name)
            await until(lambda: till.waiting == 1 + len(SESSIONS))
            await asyncio.to_thread(copy)
            till.gate.set()
            await ended(trail, *SESSIONS)
            await trail.start(till.agent(), "after", session="late")
            await ended(trail, "late")
        await trail.views.wait()
    return till.paid


async def gone_on_with(url: str, paid: Counter[str]) -> None:
    """Carry on what is open in the copy, and check what it comes to."""
    till = Till(is_open=True)
    async with Steptrail.open(url) as trail:
        await trail.views.wait()
        counted = await trail.views.sql("SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM executions")
        assert counted.rows == [(1 + len(SESSIONS), 1)]
        async with trail.work(till.agent()):
            await ended(trail, "early", *SESSIONS)
        assert {row.session_id for row in await trail.runs()} == {"early", *SESSIONS}
        place = await trail.store.place("ledger")
        async with trail.follower("ledger") as follower:
            assert (await anext(aiter(follower))).position > place > 0
    # What was in flight when the copy was made is done again, under the key under which it was done.
    assert till.paid == Counter({f"{name}:1:2:0": 1 for name in SESSIONS})
    assert till.paid.keys() < paid.keys()


@pytest.mark.acceptance("9.1-5")
async def test_a_dump_of_a_server_is_restored_into_another_database_and_in_place(
    postgres_server: PostgresServer, postgres_database: str, tmp_path: Path
) -> None:
    dump = tmp_path / "steptrail.dump"
    url = postgres_server.url(postgres_database)

    def program(name: str, *arguments: str) -> None:
        subprocess.run([str(find_binaries() / name), *arguments], check=True, capture_output=True)

    def restore(database: str) -> None:
        address = f"--dbname={postgres_server.url(database)}"
        program("pg_restore", address, "--single-transaction", "--exit-on-error", str(dump))

    def copied() -> None:
        program("pg_dump", "--schema=steptrail", "--format=custom", f"--file={dump}", url)

    paid = await backed_up_amid_runs(url + SHORT, copied)
    other = postgres_server.create_database()
    try:
        await asyncio.to_thread(restore, other)
        await gone_on_with(postgres_server.url(other) + SHORT, paid)
        assert await asyncio.to_thread(main, ["doctor", "--store", postgres_server.url(other)]) == 0
    finally:
        postgres_server.drop_database(other)
    # Beside the read models of what came later: they are not those of this store any more.
    postgres_server.execute("DROP SCHEMA steptrail CASCADE", database=postgres_database)
    await asyncio.to_thread(restore, postgres_database)
    await gone_on_with(url + SHORT, paid)
    assert await asyncio.to_thread(main, ["doctor", "--store", url]) == 0


@pytest.mark.parametrize("how", ["VACUUM INTO", "backup"])
async def test_a_copy_of_a_file_is_a_store_and_in_its_place_too(tmp_path: Path, how: str) -> None:
    file, copy = tmp_path / "runs.db", tmp_path / "copy.db"

    def copied() -> None:
        with closing(sqlite3.connect(file)) as connection:
            if how == "backup":
                with closing(sqlite3.connect(copy)) as target:
                    connection.backup(target)
            else:
                connection.execute("VACUUM INTO ?", (str(copy),))

    paid = await backed_up_amid_runs(f"sqlite:///{file}", copied)
    for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    file.write_bytes(copy.read_bytes())
    for each in (copy, file):
        await gone_on_with(f"sqlite:///{each}", paid)
        assert await asyncio.to_thread(main, ["doctor", "--store", f"sqlite:///{each}"]) == 0
