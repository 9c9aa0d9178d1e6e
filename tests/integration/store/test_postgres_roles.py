"""Each role of the guide may do what the guide says, and no more; who lacks a right is told so."""

import asyncio
import re
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.errors import StoreError
from steptrail.errors import StoreReadOnly, StoreUnavailable
from steptrail.interfaces.cli.main import main
from tests.harness.postgres_server import PostgresServer
from tests.runner.kit import agent_of
from tests.trail.workers import ended

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "postgresql.md"
USERS = {
    "owner": "steptrail_owner",
    "worker": "steptrail_worker",
    "eraser": "steptrail_eraser",
    "projector": "steptrail_projector",
    "reader": "steptrail_reader",
    "nobody": None,
}


@pytest.fixture
def addresses(postgres_server: PostgresServer, postgres_database: str) -> Generator[dict[str, str]]:
    """Yield the address of the store for a user of each role."""
    roles = GUIDE.read_text(encoding="utf-8").partition("## Roles")[2].partition("\n## ")[0]
    made, granted = (
        [each for each in block.split(";") if each.strip()]
        for block in re.findall(r"```sql\n(.*?)```", roles, re.DOTALL)
    )
    urls = {user: postgres_server.url(postgres_database, user=f"a_{user}") for user in USERS}
    postgres_server.execute(*made, database=postgres_database)
    try:
        for user, role in USERS.items():
            postgres_server.execute(f"CREATE ROLE a_{user} LOGIN" + (f" IN ROLE {role}" if role else ""))
        postgres_server.execute(
            f"GRANT CREATE ON DATABASE {postgres_database} TO steptrail_projector",
            "ALTER ROLE a_projector SET ROLE steptrail_projector",
            # What the owner makes belongs to the role.
            "ALTER ROLE a_owner SET ROLE steptrail_owner",
        )
        Steptrail.open_sync(urls["owner"]).close()
        postgres_server.execute("SET ROLE steptrail_owner; " + ";".join(granted), database=postgres_database)
        yield urls
    finally:
        roles = ", ".join([*(f"a_{user}" for user in USERS), *(role for role in USERS.values() if role)])
        postgres_server.execute(f"DROP OWNED BY {roles}", database=postgres_database)
        postgres_server.execute(f"DROP ROLE {roles}")


def refused(address: str, capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """Return the one line with which a command is refused."""
    assert main([*command, "--store", address]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.acceptance("9.1-4")
async def test_a_worker_works_and_changes_nothing_and_others_do_what_it_may_not(
    postgres_server: PostgresServer, postgres_database: str, addresses: dict[str, str]
) -> None:
    agent = agent_of(["Done."]).build()
    async with Steptrail.open(addresses["worker"]) as trail:
        async with trail.work(agent):
            for name in ("one", "two"):
                await trail.start(agent, "x" * 40_000, session=name)
                await ended(trail, name)
        with pytest.raises(StoreReadOnly, match="cannot be written by this user: grant it the right"):
            await trail.erase("one", by="ana", reason="asked")
        with pytest.raises(StoreError, match="by this user: grant it the right"):
            await trail.views.sql("SELECT 1")
        assert (await trail.session("one").state()).output == "Done."
    for statement in (
        "DELETE FROM steptrail.events",
        "UPDATE steptrail.events SET state = '{}'",
        "TRUNCATE steptrail.events",
    ):
        with pytest.raises(Exception, match="permission denied"):
            postgres_server.execute(f"SET ROLE steptrail_worker; {statement}", database=postgres_database)
    async with Steptrail.open(addresses["projector"]) as trail:
        answer = await trail.views.sql("SELECT status, count(*) FROM executions GROUP BY 1")
        assert answer.rows == [("completed", 2)]
        assert len(await trail.runs()) == 2
        with pytest.raises(StoreReadOnly, match="grant it the right"):
            await trail.start(agent, "go", session="three")
    counted = "SET ROLE steptrail_reader; SELECT count(*) FROM steptrail_views.executions"
    assert postgres_server.execute(*counted.split(";"), database=postgres_database) == [(2,)]
    async with Steptrail.open(addresses["eraser"]) as trail:
        report = await trail.erase("one", by="ana", reason="asked")
        assert [each.stream for each in report.erased] == ["agent:one"]
    async with Steptrail.open(addresses["projector"]) as trail:
        answer = await trail.views.sql("SELECT stream FROM executions")
        assert (answer.rows, answer.lag) == ([("agent:two",)], 0)
        assert await trail.views.rebuild() > 1
    async with Steptrail.open(addresses["eraser"]) as trail:
        with pytest.raises(StoreReadOnly, match=r"has not vacuumed all tables of the store .*: let their owner do it"):
            await trail.finish_erasing()
    async with Steptrail.open(addresses["owner"]) as trail:
        assert "overwrites them when it uses them again" in (await trail.finish_erasing() or "")


@pytest.mark.parametrize("user", ["reader", "nobody"])
def test_who_may_not_read_the_log_is_told_so(
    addresses: dict[str, str], user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be read by this user: grant it the right"):
        Steptrail.open_sync(addresses[user])
    assert "grant it the right" in refused(addresses[user], capsys, "runs")


@pytest.mark.parametrize("command", [("stats",), ("sql", "SELECT 1"), ("runs", "--tag", "a=b")])
def test_who_may_not_make_the_read_models_is_told_which_right_is_missing(
    addresses: dict[str, str], command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(addresses["worker"], capsys, *command)
    assert "by this user: grant it the right (permission denied for database" in said


async def test_who_may_not_hold_leases_is_told_that_what_is_counted_stays_as_it_is(
    postgres_server: PostgresServer,
    postgres_database: str,
    addresses: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = agent_of(["Done."] * 2).build()
    async with Steptrail.open(addresses["worker"]) as trail:
        await trail.run(agent, "go", session="one")
        await trail.run(agent, "go", session="two")
    revoke = "REVOKE INSERT, UPDATE, DELETE ON steptrail.leases FROM steptrail_projector"
    postgres_server.execute("SET ROLE steptrail_owner", revoke, database=postgres_database)
    async with Steptrail.open(addresses["projector"]) as trail:
        assert (await trail.views.sql("SELECT count(*) FROM executions")).rows == [(2,)]
    async with Steptrail.open(addresses["eraser"]) as trail:
        await trail.erase("one", by="ana", reason="asked")
    async with Steptrail.open(addresses["projector"]) as trail:
        answer = await trail.views.sql("SELECT count(*) FROM executions")
        assert (answer.rows, answer.lag) == ([(1,)], 0)
    assert "the read models stay as they are counted" in caplog.text
    assert "grant it the right (permission denied for table leases)" in caplog.text
    assert await asyncio.to_thread(main, ["stats", "--store", addresses["projector"]]) == 0
    assert "1 erased session still in these" in capsys.readouterr().err


def test_who_may_not_make_the_store_is_told_so(postgres_server: PostgresServer, postgres_database: str) -> None:
    postgres_server.execute("CREATE ROLE a_stranger LOGIN")
    try:
        with pytest.raises(StoreReadOnly, match="grant it the right"):
            Steptrail.open_sync(postgres_server.url(postgres_database, user="a_stranger"))
    finally:
        with suppress(Exception):
            postgres_server.execute("DROP ROLE a_stranger")


async def test_a_right_that_is_missing_is_no_damage(
    postgres_server: PostgresServer,
    postgres_database: str,
    addresses: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Steptrail.open(addresses["worker"]) as trail:
        await trail.run(agent_of(["Done."]).build(), "Hi", session="one")
    postgres_server.execute("REVOKE SELECT ON steptrail.erasures FROM steptrail_projector", database=postgres_database)
    said = await asyncio.to_thread(refused, addresses["projector"], capsys, "doctor")
    assert "cannot be read by this user: grant it the right (permission denied for table erasures" in said
