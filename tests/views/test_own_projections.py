"""Projections of a service: kept beside ours, asked in SQL, rebuilt, replaced by another version, and failing."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.errors import QueryRefused
from steptrail.errors import ConfigurationError, ProjectionStopped
from steptrail.events import LogEntry, ToolExecutionCompleted
from steptrail.inspector import Access, inspector
from steptrail.interfaces.cli.main import main
from steptrail.projections import INSTANT, Changes, Column, ColumnKind, Projection, Table
from steptrail.testing import ScriptedModel, call, say
from tests.conftest import ON_FILE_ONLY
from tests.views.kit import folded_again

_I, _T = ColumnKind.INTEGER, ColumnKind.TEXT


def tables(version: int) -> Sequence[Table]:
    made = Table(
        name=f"v{version}_refunds",
        says="refunds that were made",
        columns=(
            Column("position", _I, "the place"),
            Column("stream", _T, "the session"),
            Column("at", _I, "when", INSTANT),
            Column("cents", _I, "how much", "cents"),
        ),
        key=("position",),
        aged_by="at",
    )
    total = Table(
        name=f"v{version}_refunds_total",
        says="refunds of each session",
        columns=(Column("stream", _T, "the session"), Column("cents", _I, "how much", "cents")),
        key=("stream",),
        is_sums=True,
    )
    return (made, total)


class Refunds(Projection[int]):
    """Keeps refunds, `factor` times as large. One of 13 cents it cannot stand."""

    name, prefixes, types = "refunds", ("agent:",), (ToolExecutionCompleted.TYPE,)

    def __init__(self, *, version: int = 1, on_error: Any = "stop", fails: bool = True) -> None:
        self.version, self.tables, self.on_error = version, tables(version), on_error
        self._fails = fails

    def begin(self, stream: str) -> int:
        return 0

    def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int | None:
        event = entry.record.event
        assert isinstance(event, ToolExecutionCompleted)
        assert isinstance(event.result, dict)
        cents: Any = event.result["cents"]
        if cents == 13 and self._fails:
            raise ValueError("thirteen")
        made, total = self.tables
        cents *= self.version
        row = {"position": entry.position, "stream": entry.stream, "at": entry.record.at, "cents": cents}
        changes.put(made, row)
        changes.add(total, (entry.stream,), {"cents": cents})
        return fold + 1


class Wide(Projection[None]):
    """Has a row for each session, with some columns that are all 1."""

    name, version, prefixes, types = "wide", 1, ("agent:",), (ToolExecutionCompleted.TYPE,)

    def __init__(self, columns: Sequence[str]) -> None:
        ones = (Column(name, _I, "a one") for name in columns)
        key = Column("stream", _T, "the session")
        table = Table(name="v1_wide", says="ones", columns=(key, *ones), key=("stream",))
        self.tables, self._row = (table,), dict.fromkeys(columns, 1)

    def begin(self, stream: str) -> None:
        return None

    def apply(self, fold: None, entry: LogEntry, changes: Changes) -> None:
        changes.put(self.tables[0], {"stream": entry.stream, **self._row})


class Forgetful(Projection[None]):
    """Remembers nothing of a session."""

    name, prefixes, types, tables = "refunds", ("agent:",), (ToolExecutionCompleted.TYPE,), tables(1)

    def begin(self, stream: str) -> None:
        return None

    def apply(self, fold: None, entry: LogEntry, changes: Changes) -> None:
        event = entry.record.event
        assert isinstance(event, ToolExecutionCompleted)
        assert isinstance(event.result, dict)
        cents: Any = event.result["cents"]
        row = {"position": entry.position, "stream": entry.stream, "at": entry.record.at, "cents": cents}
        changes.put(self.tables[0], row)


@tool(effect=ToolEffect.READ)
def refund(cents: int) -> dict[str, int]:
    """Give money back."""
    return {"cents": cents}


def desk(cents: int) -> Agent:
    script = [call("refund", cents=cents), say("Done.")]
    return AgentBuilder("desk").with_model(ScriptedModel(script * 2)).with_tools(refund).build()


async def refunds(trail: Steptrail, **options: Any) -> list[tuple[Any, ...]]:
    answer = await trail.views.sql("SELECT stream, cents FROM refunds ORDER BY position", **options)
    return [tuple(row) for row in answer.rows]


async def refunds_if_shown(trail: Steptrail) -> list[tuple[Any, ...]] | None:
    try:
        return await refunds(trail, fresh=None)
    except QueryRefused:
        return None


@pytest.mark.acceptance("8.1-7")
async def test_tables_of_a_service_are_kept_beside_ours_and_asked_with_them(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        async with trail.views.kept_going():
            await trail.run(desk(450), "hi", session="a")
            await trail.views.wait(timeout=60)
            assert await refunds(trail, fresh=None) == [("agent:a", 450)]
        await trail.run(desk(5), "hi", session="b")
        joined = await trail.views.sql(
            "SELECT e.name, sum(r.cents) FROM refunds r JOIN executions e ON e.stream = r.stream GROUP BY e.name"
        )
        assert [(name, int(str(cents))) for name, cents in joined.rows] == [("desk", 455)]
        listed = await trail.views.sql('SELECT "column", unit FROM view_columns WHERE view = $1', "refunds")
        assert [tuple(row) for row in listed.rows] == [
            ("position", ""),
            ("stream", ""),
            ("at", ""),
            ("at_us", "microseconds of UTC"),
            ("cents", "cents"),
        ]
        assert {each.name: each.lag for each in await trail.views.status()} == {"refunds": 0, "runs": 0}
        assert await trail.views.verify() == []
        await trail.views.rebuild()
        assert await refunds(trail, fresh=None) == [("agent:a", 450), ("agent:b", 5)]
        await trail.erase("a", by="ana", reason="test")
        assert await refunds(trail) == [("agent:b", 5)]
        assert [tuple(row) for row in (await trail.views.sql("SELECT * FROM refunds_total")).rows] == [("agent:b", 5)]
        assert await trail.views.verify() == []


@ON_FILE_ONLY
async def test_one_that_remembers_nothing_of_a_session_counts_all_of_it(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Forgetful()]) as trail:
        await trail.run(desk(450), "hi", session="a")
        await trail.session("a").send(desk(5), "again")
        assert await refunds(trail) == [("agent:a", 450), ("agent:a", 5)]
        assert await trail.views.verify() == []


async def test_who_does_not_know_them_rebuilds_ours_and_they_are_counted_again(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail, Steptrail.open(store_url) as other:
        await trail.run(desk(450), "hi", session="a")
        assert await refunds(trail) == [("agent:a", 450)]
        assert await refunds(other) == [("agent:a", 450)]
        for _ in range(2):
            await other.views.rebuild()
            assert await refunds(trail) == [("agent:a", 450)]
            assert {each.name for each in await other.views.status()} == {"refunds", "runs"}
        assert await refunds(other) == [("agent:a", 450)]
        assert (await other.views.sql("SELECT count(*) FROM executions")).rows[0][0] == 1
        assert await trail.views.verify() == []


async def test_a_column_that_came_without_a_version_stops_its_projection_and_no_other(store_url: str) -> None:
    for columns in (["a"], ["a", "b"]):
        async with Steptrail.open(store_url, projections=[Wide(columns)]) as trail:
            await trail.run(desk(450), "hi", session=columns[-1])
            answer = await trail.views.sql("SELECT stream, a FROM wide")
            assert [*map(tuple, answer.rows)] == [("agent:a", 1)]
            assert len((await trail.views.runs()).rows) == len(columns)
            stopped = {each.name: each.error is not None for each in await trail.views.status()}
            assert stopped == {"wide": len(columns) > 1, "runs": False}


@pytest.mark.parametrize("others", [[], ["a"]])
async def test_a_table_that_came_without_a_version_stops_its_projection_and_no_other(
    store_url: str, others: Sequence[str]
) -> None:
    both = Refunds()
    only_one = Forgetful()
    only_one.tables = both.tables[:1]
    async with Steptrail.open(store_url, projections=[only_one]) as trail:
        await trail.run(desk(450), "hi", session="a")
        assert await refunds(trail) == [("agent:a", 450)]
    beside = [Wide([name]) for name in others]  # another one that is new makes its tables
    async with Steptrail.open(store_url, projections=[both, *beside]) as trail:
        await trail.run(desk(5), "hi", session="b")
        assert await refunds(trail) == [("agent:a", 450)]
        assert len((await trail.views.sql("SELECT stream FROM executions")).rows) == 2
        said = "refunds was begun without the table v1_refunds_total: count up its `version`, or rebuild it"
        with pytest.raises(ProjectionStopped, match=said):
            await trail.views.wait(timeout=60)
        assert [each.what for each in await trail.views.verify()] == [said]
        await trail.views.rebuild()
        assert await refunds(trail) == [("agent:a", 450), ("agent:b", 5)]
        assert await trail.views.verify() == []


async def test_tables_that_cannot_be_made_are_a_mistake_of_who_described_them(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    too_wide = Wide([f"c{number}" for number in range(3000)])
    async with Steptrail.open(store_url, projections=[too_wide]) as trail:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"runs, wide cannot be made: .*too many|at most 1600 columns"):
                await trail.views.wait()
        assert not trail.views.all.series.sizes()
        async with trail.views.kept_going(), asyncio.timeout(60):
            while "cannot be made" not in caplog.text:
                await asyncio.sleep(0.05)


async def test_who_keeps_going_counts_into_what_another_one_has_rebuilt_though_nothing_happens(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail, Steptrail.open(store_url) as other:
        await trail.run(desk(450), "hi", session="a")
        async with trail.views.kept_going(), asyncio.timeout(60):
            await trail.views.wait()
            for number in range(2):
                assert await other.views.rebuild() > number
                # Its table has its name once all is counted, and that in a commit of its own.
                while await refunds_if_shown(other) != [("agent:a", 450)]:
                    await asyncio.sleep(0.05)


@ON_FILE_ONLY
async def test_one_that_fails_stops_alone_and_one_that_is_to_skip_goes_on(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        for name, cents in (("a", 1), ("b", 13), ("c", 3)):
            await trail.run(desk(cents), "hi", session=name)
        page = await trail.views.runs()
        assert (len(page.rows), page.lag) == (3, 0)
        assert await refunds(trail) == [("agent:a", 1)]
        stopped = {each.name: each for each in await trail.views.status()}["refunds"]
        assert (stopped.lag > 0, "ValueError: thirteen" in (stopped.error or ""), stopped.skipped) == (True, True, 0)
        with pytest.raises(ProjectionStopped, match="'refunds' stopped"):
            await trail.views.wait(timeout=60)
        assert (await trail.views.runs()).lag == 0
    async with Steptrail.open(store_url, projections=[Refunds(on_error="skip")]) as trail:
        assert await refunds(trail) == [("agent:a", 1), ("agent:c", 3)]
        status = {each.name: each for each in await trail.views.status()}["refunds"]
        assert (status.lag, status.error, status.skipped) == (0, None, 1)
        passed = await trail.views.sql("SELECT stream, error FROM skipped")
        assert [(row[0], "ValueError: thirteen" in str(row[1])) for row in passed.rows] == [("agent:b", True)]
        (fault,) = await trail.views.verify()
        assert fault.what.startswith("refunds passed 1 event, the first at position ")
        assert (fault.what.endswith(": ValueError: thirteen"), fault.is_damage) == (True, False)
        await trail.run(desk(4), "again", session="b")  # a session of which something was passed
        assert (await refunds(trail))[-1] == ("agent:b", 4)
        await trail.views.rebuild()
        assert {each.name: each.skipped for each in await trail.views.status()} == {"refunds": 1, "runs": 0}
    async with Steptrail.open(store_url, projections=[Refunds(on_error="skip", fails=False)]) as trail:
        faults = [each.what for each in await trail.views.verify()]
        assert faults[0] == "refunds does not pass the same events any more: `steptrail rebuild`"
        await trail.views.rebuild()
        assert sorted(await refunds(trail)) == [("agent:a", 1), ("agent:b", 4), ("agent:b", 13), ("agent:c", 3)]
        assert await trail.views.verify() == []


async def test_ours_are_counted_anew_without_what_was_erased_though_one_has_stopped(
    store_url: str,
) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        for name, cents in (("a", 1), ("b", 13), ("c", 3)):
            await trail.run(desk(cents), "hi", session=name)
        assert await refunds(trail) == [("agent:a", 1)]
        await trail.erase("c", by="ana", reason="asked")
        page = await trail.views.runs()
        assert ([row.stream for row in page.rows], page.lag) == (["agent:b", "agent:a"], 0)
        assert await refunds(trail) == [("agent:a", 1)]
        assert "ValueError: thirteen" in str([each.error for each in await trail.views.status()])
        with pytest.raises(ProjectionStopped, match="'refunds' stopped"):
            await trail.views.rebuild()
        assert len((await trail.views.runs()).rows) == 2
    async with Steptrail.open(store_url, projections=[Refunds(fails=False)]) as trail:
        assert await refunds(trail) == [("agent:a", 1), ("agent:b", 13)]
        assert await trail.views.verify() == []


@ON_FILE_ONLY
def test_the_command_tells_of_projections_that_it_does_not_know(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Steptrail.open_sync(store_url, projections=[Refunds(on_error="skip")]) as trail:
        trail.run(desk(13), "hi", session="a")
        trail.views.wait(timeout=60)
        assert trail.views.sql("SELECT count(*) FROM refunds").rows[0][0] == 0
    assert main(["views", "--store", store_url]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refunds")]
    assert line.rstrip().endswith("1 skipped")
    assert main(["views", "--json", "--store", store_url]) == 0
    found = {each["name"]: each["skipped"] for each in json.loads(capsys.readouterr().out)}
    assert found == {"refunds": 1, "runs": 0}


async def test_the_pages_of_the_inspector_tell_of_them_and_count_without_them(tmp_path: Path) -> None:
    def authorize(_: object) -> Access:
        return Access()

    async def pages(trail: Steptrail) -> tuple[str, str]:
        transport = httpx.ASGITransport(inspector(trail, authorize=authorize))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            return (await client.get("/stats")).text, (await client.get("/health")).text

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url, projections=[Refunds()]) as trail:
        await trail.run(desk(13), "hi", session="a")
        assert await refunds(trail) == []
        stats, health = await pages(trail)
        assert "counting has stopped" not in stats
        assert "stopped at position" in health
    async with Steptrail.open(url, projections=[Refunds(on_error="skip")]) as trail:
        await trail.views.wait(timeout=60)
        _, health = await pages(trail)
        assert "1 of its events skipped because it failed" in health


@ON_FILE_ONLY
def test_commands_that_are_told_where_the_class_is_count_with_it(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> tuple[int, str]:
        code = main([*words, "--store", store_url])
        said = capsys.readouterr()
        return code, said.out + said.err

    own = f"{__file__}:of_the_command"
    with Steptrail.open_sync(store_url) as trail:
        trail.run(desk(450), "hi", session="a")
        trail.run(desk(13), "hi", session="b")
    assert command("rebuild", "--projection", own)[0] == 0
    assert command("sql", "SELECT cents FROM refunds")[1].split() == ["cents", "450"]
    for words in (("doctor",), ("doctor", "--projection", own)):
        code, said = command(*words)
        assert (code, "passed 1 event" in said) == (0, True)
    assert "the rows of 0 runs" in command("views", "--prune", "9d", "--projection", own)[1]
    wrong = tmp_path / "wrong.py"
    wrong.write_text("x = 1\ndef boom():\n    raise ValueError('no')\n", "utf-8")
    for reference in ("refunds", "nowhere.py:Refunds", "no.such:x", f"{wrong}:y", f"{wrong}:x", f"{wrong}:boom"):
        code, said = command("rebuild", "--projection", reference)
        assert (code, said.startswith("steptrail: "), said.count("\n")) == (2, True, 1), said


def of_the_command() -> Refunds:
    return Refunds(on_error="skip")


class Odd(Refunds):
    """Makes rows that no table takes."""

    def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int | None:
        made, _ = self.tables
        number = len(entry.stream) % 4
        row: dict[str, Any] = {"position": entry.position, "stream": entry.stream, "at": 1, "cents": 1}
        if number == 0:
            del row["cents"]
        changes.put(made, row | ({"cents": 2**70} if number == 1 else {"cents": None} if number == 2 else {}))
        return fold


async def test_rows_that_a_table_refuses_are_passed_one_by_one(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Odd(on_error="skip")]) as trail:
        for length in range(1, 6):
            await trail.run(desk(1), "hi", session="s" * length)
        assert await refunds(trail) == [("agent:s", 1), ("agent:sssss", 1)]
        assert {each.name: each.skipped for each in await trail.views.status()} == {"refunds": 3, "runs": 0}
        assert (await trail.views.runs()).lag == 0


@pytest.mark.parametrize("version", [1, 2])
async def test_names_that_another_service_has_are_refused(store_url: str, version: int) -> None:
    class Other(Refunds):
        name = "refunds_total"

        def __init__(self) -> None:
            super().__init__(version=version)
            self.tables = tables(version)[1:]

        def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int | None:
            return fold

    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        await trail.run(desk(1), "hi", session="a")
        assert await refunds(trail) == [("agent:a", 1)]
        async with Steptrail.open(store_url, projections=[Other()]) as other:
            with pytest.raises(ConfigurationError, match=r"the (view|table) (v1_)?refunds_total is one of refunds"):
                await other.views.sql("SELECT 1")
        assert await refunds(trail) == [("agent:a", 1)]
        assert await trail.views.verify() == []


async def test_without_the_class_there_is_no_such_table(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        with pytest.raises(QueryRefused):
            await refunds(trail)


@ON_FILE_ONLY
async def test_a_count_from_the_beginning_reads_the_log_once_however_sessions_begin(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = folded_again(monkeypatch)
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        agent = desk(5)
        for name in ("a", "b"):
            await trail.run(agent, "hi", session=name)
        await trail.views.wait(timeout=60)
        await trail.views.rebuild()
        assert await trail.views.verify() == []
        assert again == []
        # Another process begins in the middle, and knows nothing of what comes before.
        async with Steptrail.open(store_url, projections=[Refunds()]) as other:
            await trail.run(desk(7), "again", session="a")
            await other.views.wait(timeout=60)
        assert "agent:a" in [stream for stream, _ in again]
        assert sorted(await refunds(trail)) == [("agent:a", 5), ("agent:a", 7), ("agent:b", 5)]
