"""The floor writes what the run wrote, and the counters count."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rows import Row, bytes_by_step, split_commits
from benchmarks.sqlite_place import SqlitePlace, SqliteSite
from benchmarks.sync_counter import counted_syncs
from benchmarks.syncs import syncs_in
from benchmarks.work import agent, run, session_name
from steptrail import RunResult, Steptrail
from steptrail.domain.continuation.names import criterion_name
from steptrail.events import EvaluationsRecorded
from steptrail.runtime.agent.agent import criteria_for

COLUMNS = ("position", "type", "state", "commit_id")


async def ran(place: SqlitePlace, steps: int) -> RunResult:
    async with Steptrail.open(place.url) as trail:
        return await run(trail, agent(steps), session_name(0))


def test_rows_are_split_where_a_commit_begins_and_lose_their_position() -> None:
    rows: list[Row] = [(1, "a", b"1", "c1"), (2, "b", b"2", None), (3, "c", b"3", "c2")]
    split = split_commits(COLUMNS, rows)
    assert split.columns == ("type", "state", "commit_id")
    assert split.commits == ((("a", b"1", "c1"), ("b", b"2", None)), (("c", b"3", "c2"),))


def test_a_row_of_no_commit_is_refused() -> None:
    with pytest.raises(ValueError, match="commit that is not there"):
        split_commits(COLUMNS, [(1, "a", b"1", None)])


def test_bytes_belong_to_the_step_that_had_begun() -> None:
    rows: list[Row] = [
        (1, "before", b"123", "c1"),
        (2, "step.started.v1", b"12", None),
        (3, "é", b"", "c2"),
        (4, "step.started.v1", b"", None),
    ]
    assert bytes_by_step(split_commits(COLUMNS, rows)) == [15 + 2 + 2 + 2, 15]


async def test_the_floor_writes_the_rows_of_the_run_commit_by_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = SqliteSite(tmp_path).fresh()
    await ran(place, 3)
    rows = place.rows()
    written: list[str] = []
    connect = sqlite3.connect

    def traced(database: Path, **settings: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(database, **settings)
        connection.set_trace_callback(written.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    place.write_floor(rows)
    inserts = [statement for statement in written if statement.startswith("INSERT")]
    assert len(inserts) == len(rows.commits)
    assert [statement.count("agent:") for statement in inserts] == [len(commit) for commit in rows.commits]
    assert "PRAGMA synchronous = FULL" in written
    assert not list(Path(place.url.removeprefix("sqlite:///")).parent.rglob("floor.db*"))


async def test_in_the_work_that_is_measured_every_criterion_is_asked(tmp_path: Path) -> None:
    place = SqliteSite(tmp_path).fresh()
    result = await ran(place, 2)
    who = agent(2)
    everyone = {criterion_name(criterion) for criterion in criteria_for(who.snapshot, ()).criteria}
    assert result.state.step_count == 3
    assert len(everyone) == 11
    # It abstains unless a message came in while the run went on.
    assert await voters(place) == everyone - {"PendingInput"}


async def voters(place: SqlitePlace) -> set[str]:
    async with Steptrail.open(place.url) as trail:
        events = await trail.session(session_name(0)).events()
    return {
        vote.criterion_class
        for record in events
        if isinstance(record.event, EvaluationsRecorded)
        for vote in record.event.votes
    }


def test_each_durable_commit_is_one_sync_and_the_counter_sees_it(tmp_path: Path) -> None:
    with counted_syncs() as counter, closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        for setting in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t (a)"):
            connection.execute(setting).fetchall()
        before = counter.count
        for _ in range(7):
            connection.execute("INSERT INTO t VALUES (1)")
        assert counter.count - before == 7


def test_outside_of_the_block_nothing_is_counted(tmp_path: Path) -> None:
    with counted_syncs() as counter:
        pass
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
    assert counter.count == 0


def test_a_sync_that_strace_shows_in_two_lines_is_one() -> None:
    trace = "\n".join(
        [
            "7 fdatasync(5) = 0",
            "8 fsync(6 <unfinished ...>",
            "7 fdatasync(5 <unfinished ...>",
            "8 <... fsync resumed>) = 0",
            "7 <... fdatasync resumed>) = 0",
            "7 +++ exited with 0 +++",
        ]
    )
    assert syncs_in(trace) == 3
