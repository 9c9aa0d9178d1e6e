"""`trail.views.verify` and `doctor` compare the rows of read models with what the log makes."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.infrastructure.views.verifying import ViewsFault
from steptrail.interfaces.cli.main import main
from steptrail.projections.runs_view.tables import named
from tests.harness.hands import change_by_hand
from tests.views.counting import Counting, note
from tests.views.kit import desk, viewed


async def a_few_runs(trail: Steptrail) -> None:
    for name in ("a", "b", "c"):
        await trail.run(desk("Found."), "hi", session=name, metadata={"tags": {"user": f"canary-{name}"}})
    await trail.run(desk(), "hi", session="failed")


async def by_hand(trail: Steptrail, url: str, statement: str) -> None:
    """Change a row of the present read models. `{}` stands for what is before the word for a table."""
    views = trail.views.all
    number = (await views.present()).number
    where = f"steptrail_views_{number}." if url.startswith("postgres") else ""
    database = views.series.open(number).database
    changed = await asyncio.to_thread(
        database.write, lambda statements: statements.change(statement.replace("{}", where + named("")))
    )
    assert changed == 1


CHANGES = {
    "executions": "UPDATE {}executions SET status = 'completed' WHERE status = 'failed'",
    "steps": "DELETE FROM {}steps WHERE step = 1 AND execution = (SELECT min(execution) FROM {}steps)",
    "tags": "INSERT INTO {}tags SELECT 'team', 'canary-x', min(execution) FROM {}executions",
    "tool_calls": "UPDATE {}tool_calls SET tool = 'z' WHERE execution = (SELECT max(execution) FROM {}steps)",
    "runs_daily": "UPDATE {}runs_daily SET runs = runs + 1 WHERE status = 'completed'",
}


@pytest.mark.acceptance("8.1-5")
async def test_a_row_that_was_changed_added_or_lost_is_named(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        assert await trail.views.verify() == []
        await a_few_runs(trail)
        await trail.views.wait()
        assert await trail.views.verify() == []
        found: Sequence[ViewsFault] = []
        for number, (table, statement) in enumerate(CHANGES.items(), 1):
            await by_hand(trail, store_url, statement)
            found = await trail.views.verify()
            assert len(found) == number
            (fault,) = [each for each in found if each.table == named(table)]
            assert (fault.rows, fault.is_damage) == (1, True)
            assert "canary" not in str(fault)
        said = {each.table: each.what for each in found}
        assert "which says otherwise" in said[named("executions")]
        assert "which is not there" in said[named("steps")]
        assert "which should not be there" in said[named("tags")]
        assert all(what.endswith(": `steptrail rebuild`") for what in said.values())
        await trail.views.rebuild()
        assert await trail.views.verify() == []


async def test_only_what_is_counted_is_compared_and_nothing_is_applied(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        await trail.views.wait()
        await trail.run(desk("Found."), "hi", session="later")
        behind = await trail.views.lag()
        assert behind > 0
        assert await trail.views.verify() == []
        assert await trail.views.lag() == behind


async def test_rows_of_what_was_erased_since_are_no_damage(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        await trail.views.wait()
        await trail.erase("a", by="ana", reason="test")
        (fault,) = await trail.views.verify()
        assert (fault.table, fault.is_damage) == (None, False)
        assert "the next question has them made right" in fault.what
        await trail.views.wait()
        assert await trail.views.verify() == []


async def test_rows_are_compared_although_sums_of_a_long_log_still_count_what_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._AT_ONCE", 0)
    path = tmp_path / "runs.db"
    async with Steptrail.open(f"sqlite:///{path}") as trail:
        await a_few_runs(trail)
        await trail.views.wait()
        await trail.erase("a", by="ana", reason="test")
        await trail.views.wait()
        (fault,) = await trail.views.verify()
        assert (fault.table, fault.is_damage) == (None, False)
        assert "the sums of runs still count 1 erased session, since 20" in fault.what
        file = tmp_path / "runs.db-views" / "1.db"
        change_by_hand(file, f"UPDATE {named('executions')} SET steps = steps + 1")  # noqa: S608 - a name of ours
        assert [each.is_damage for each in await trail.views.verify()] == [True, False]
        status, *_ = await trail.views.status()
        assert (status.erased, status.erased_at is not None) == (1, True)
        await trail.views.rebuild()
        assert await trail.views.verify() == []
        status, *_ = await trail.views.status()
        assert (status.erased, status.erased_at) == (0, None)


async def test_rows_of_what_cannot_be_read_any_more_are_no_damage_of_the_read_models(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with viewed(f"sqlite:///{path}") as (store, views):
        await note(store, "agent:a", 1, 2, 3)
        await note(store, "agent:b", 4)
        await views.catch_up()
        assert await views.verify() == []
    change_by_hand(path, "UPDATE stored_events SET state = X'00' WHERE position = 2")
    async with viewed(f"sqlite:///{path}") as (_, views):
        (fault,) = await views.verify()
        assert fault.what.endswith("what was counted of agent:a cannot be read any more")
        assert not fault.is_damage
        await views.rebuild()
        assert await views.verify() == []


async def test_a_projection_that_has_stopped_is_named_and_its_rows_are_compared_up_to_there(store_url: str) -> None:
    async with viewed(store_url, Counting(fails_at="bad")) as (store, views):
        await note(store, "agent:a", 1, 2)
        await note(store, "agent:a", 4, text="bad")
        await views.catch_up()
        (fault,) = await views.verify()
        assert "counting has stopped" in fault.what
        assert fault.what.endswith("ValueError: I hate bad")
        assert not fault.is_damage


async def test_rows_that_grow_while_they_are_compared_are_right(store_url: str) -> None:
    async with viewed(store_url, most=3) as (store, views):

        async def grow() -> None:
            for number in range(30):
                await note(store, f"agent:{number % 4}", number)
                await views.catch_up()

        growing = asyncio.create_task(grow())
        found: list[Sequence[ViewsFault]] = []
        while not growing.done():
            found.append(await views.verify())
        await growing
        assert found
        assert not any(found)


def test_doctor_says_what_differs_and_what_to_do(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def prepare() -> None:
        async with Steptrail.open(store_url) as trail:
            await a_few_runs(trail)
            await trail.views.wait()

    async def meddle() -> None:
        async with Steptrail.open(store_url) as trail:
            await by_hand(trail, store_url, CHANGES["steps"])

    def doctor(*words: str) -> tuple[int, list[dict[str, object]]]:
        code = main(["doctor", "--json", *words, "--store", store_url])
        return code, [each for each in json.loads(capsys.readouterr().out)["findings"] if each["check"] == "views"]

    asyncio.run(prepare())
    assert doctor() == (0, [])
    asyncio.run(meddle())
    code, (finding,) = doctor()
    assert (code, finding["damage"]) == (1, True)
    said = f"of {named('steps')} 1 row is not as the log has it, the first with execution "
    assert str(finding["what"]).startswith(said)
    assert doctor("--no-views") == (0, [])
    assert main(["rebuild", "--store", store_url]) == 0
    capsys.readouterr()
    assert doctor() == (0, [])
