"""After an erasure no file of a SQLite store holds a byte of what was said; what is in the way is told of.

So is a server, whose files keep it for a while.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, tool
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Snapshot
from steptrail.domain.shared.events import MetadataChanged
from steptrail.infrastructure.store import open_store
from steptrail.testing import Reply, ScriptedModel, call
from tests.harness.postgres_server import PostgresServer
from tests.harness.scarce import largest_file

LARGE = 40_000


def files_with(folder: Path, text: str) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes())


async def said(trail: Steptrail, session: str, secret: str) -> None:
    @tool
    def look(where: str) -> str:
        """Look."""
        return f"{secret} found {secret * 9000}"

    @tool
    def broken(where: str) -> str:
        """Break."""
        raise ValueError(f"{secret} broke")

    script: Sequence[Reply] = [call("look", where=f"{secret} place"), call("broken", where="x"), f"{secret} answer"]
    agent = AgentBuilder("finder").with_model(ScriptedModel(script)).with_tools(look, broken)
    policy = ErrorPolicy.retry_tool_errors(3)
    metadata: dict[str, JsonValue] = {"tags": {"user": f"{secret} tag"}, "note": f"{secret} note"}
    await trail.run(
        agent.with_error_policy(policy).build(),
        f"{secret} input",
        session=session,
        by=f"{secret} person",
        metadata=metadata,
    )


@pytest.mark.acceptance("8.7-4")
async def test_no_file_holds_what_was_said_in_an_erased_session(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for number in range(20):
            await said(trail, f"s{number}", f"CANARY{number:02d}")
            head = await trail.store.head(f"agent:s{number}")
            for _ in range(3):
                kept = Snapshot(head, "toy", f"CANARY{number:02d}".encode() * 3000)
                await trail.store.keep_snapshot(f"agent:s{number}", kept)
        assert files_with(tmp_path, "CANARY07") != []
        order = [number * 7 % 20 for number in range(20)]
        for number in order[:15]:
            report = await trail.erase(f"s{number}", by="ana", reason="asked to")
            assert report.remains is None
            assert files_with(tmp_path, f"CANARY{number:02d}") == []
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for number in order[15:]:
            assert (await trail.session(f"s{number}").state()).version


async def test_a_server_that_still_holds_bytes_in_its_files_is_not_said_to_hold_none(
    postgres_server: PostgresServer, postgres_database: str, postgres_url: str
) -> None:
    own = f"FROM pg_database WHERE datname = '{postgres_database}'"
    ((folder,),) = postgres_server.execute(f"SELECT current_setting('data_directory') || '/base/' || oid {own}")
    async with Steptrail.open(postgres_url) as trail:
        for number in range(3):
            await said(trail, f"s{number}", f"CANARY{number:02d}")
        await trail.erase("s1", by="ana", reason="asked to")
        remains = await trail.finish_erasing()
    postgres_server.execute("CHECKPOINT")
    assert files_with(Path(folder), "CANARY01") != []
    assert remains is not None
    assert "overwrites them when it uses them again" in remains


@pytest.mark.parametrize("begins", ["BEGIN", "backup"])
async def test_a_reader_in_the_way_is_told_of_and_the_rest_is_finished_later(tmp_path: Path, begins: str) -> None:
    path = tmp_path / "runs.db"
    async with Steptrail.open(f"sqlite:///{path}", busy_timeout=0.2) as trail:
        await said(trail, "s1", "CANARY")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM events").fetchone()[0]
            if begins == "backup":
                with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
                    reader.backup(copy)
                (tmp_path / "copy.db").unlink()
            report = await trail.erase("s1", by="ana", reason="asked to")
            assert report.remains is not None
            assert "has read it for a long time" in report.remains
            assert "steptrail erase --finish" in report.remains
            assert reader.execute("SELECT count(*) FROM events").fetchone()[0] > 1
            reader.execute("COMMIT")
        assert files_with(tmp_path, "CANARY") != []
        assert await trail.finish_erasing() is None
        assert files_with(tmp_path, "CANARY") == []


async def test_a_session_of_50_000_events_is_erased_and_positions_go_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{path}", durability="normal")
    head = EMPTY_STREAM
    for number in range(100):
        events = tuple((1, MetadataChanged(changes={"note": "CANARY"}, by="x")) for _ in range(500))
        head = await store.append("agent:s", head, Commit(CommitHead(commit_id=f"c{number}", actor="x"), events))
    (erasure,) = await store.erase({"agent:s": head.version}, at=2, by="ana", reason="test")
    assert (erasure.events, erasure.position) == (50_000, 50_001)
    assert await store.scrub() is None
    assert await store.last_position() == 50_001
    assert files_with(tmp_path, "CANARY") == []
    await store.close()


async def test_an_erasure_without_room_to_write_the_file_anew_says_so_and_is_finished_later(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for number in range(4):
            await said(trail, f"s{number}", f"CANARY{number:02d}")
        # The log has room for the erasure, and not for the whole file behind it.
        await trail.finish_erasing()
        with largest_file((tmp_path / "runs.db").stat().st_size * 2 // 3):
            report = await trail.erase("s0", by="ana", reason="asked to")
        assert [each.stream for each in report.erased] == ["agent:s0"]
        assert report.remains is not None
        assert "are not in use (disk I/O error)" in report.remains
        assert "the log" in report.remains
        assert await trail.finish_erasing() is None
        assert files_with(tmp_path, "CANARY00") == []
