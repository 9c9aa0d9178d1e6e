"""A session comes out of an archive whole or not at all: half of one looks like a run whose process died."""

import asyncio
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.errors import AppendOutcomeUnknown, StoreFull
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.python.archive import ArchiveFile, unarchived
from steptrail.testing import ManualClock
from tests.harness.postgres_server import PostgresServer
from tests.harness.scarce import largest_file
from tests.runner.kit import agent_of
from tests.trail.test_archive import archive_of

STREAM = "agent:s"
CUT = (
    "CREATE FUNCTION steptrail.cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {}; RETURN new; END $$",
    "CREATE TRIGGER cut BEFORE INSERT ON steptrail.commits FOR EACH ROW WHEN (new.version > 300) "
    "EXECUTE FUNCTION steptrail.cut()",
)
"""In the middle of the session, far behind what goes to the server first."""


@pytest.fixture
async def archived(tmp_path: Path) -> ArchiveFile:
    """A session of many commits."""
    clock = ManualClock()
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        agent = agent_of([f"Done {number}. {'x' * 5_000}" for number in range(40)]).build()
        for _ in range(40):
            await trail.session("s").send(agent, "go")
        return ArchiveFile.proved((await archive_of(trail, clock, tmp_path / "archive"))[STREAM])


async def test_given_others_who_look_meanwhile_then_they_see_nothing_of_it_or_all(
    store_url: str, archived: ArchiveFile
) -> None:
    seen, other = list[int](), open_store(store_url)
    async with Steptrail.open(store_url) as trail:
        restoring = asyncio.create_task(unarchived(trail, [archived]))
        while not restoring.done():
            seen.append(await other.version(STREAM))
        await restoring
        assert (await trail.session("s").state()).output == f"Done 39. {'x' * 5_000}"
    await other.close()
    assert {*seen} <= {0, archived.events}


async def test_given_a_disk_that_is_full_in_the_middle_then_nothing_is_stored_and_again_all(
    tmp_path: Path, archived: ArchiveFile
) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        with largest_file(200_000), pytest.raises(AppendOutcomeUnknown):
            await unarchived(trail, [archived])
        assert await trail.store.version(STREAM) == 0
        await unarchived(trail, [archived])
        assert await trail.store.version(STREAM) == archived.events


@pytest.mark.slow("asks a server")
@pytest.mark.parametrize(
    ("happens", "raised"),
    [
        ("PERFORM pg_terminate_backend(pg_backend_pid())", AppendOutcomeUnknown),
        ("RAISE EXCEPTION 'no space' USING ERRCODE = '53100'", StoreFull),
    ],
)
async def test_given_a_server_that_fails_in_the_middle_then_nothing_is_stored_and_again_all(
    postgres_server: PostgresServer,
    postgres_store_url: str,
    archived: ArchiveFile,
    happens: str,
    raised: type[Exception],
) -> None:
    database = postgres_store_url.rpartition("/")[2]
    postgres_server.execute(*(each.format(happens) for each in CUT), database=database)
    async with Steptrail.open(postgres_store_url) as trail:
        with pytest.raises(raised):
            await unarchived(trail, [archived])
        postgres_server.execute("DROP FUNCTION steptrail.cut() CASCADE", database=database)
        assert await trail.store.version(STREAM) == 0
        await unarchived(trail, [archived])
        assert await trail.store.version(STREAM) == archived.events
