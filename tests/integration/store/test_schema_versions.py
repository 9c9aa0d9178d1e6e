"""Files of older schema versions, which knew neither blobs nor snapshots nor places, go on working."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steptrail.domain.kernel.record import CommitHead, Snapshot
from steptrail.infrastructure.store.core.blobs import LIMIT
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.recorder import SCHEMA_VERSION
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.testing.store_contract import Noted, commit_of
from tests.integration.store.kit import use

VERSION_1 = """
CREATE TABLE stored_events (
  position INTEGER PRIMARY KEY AUTOINCREMENT, originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL,
  topic TEXT NOT NULL, state BLOB NOT NULL,
  commit_id TEXT, actor TEXT, causation TEXT, segment INTEGER, key_id TEXT, previous_digest BLOB, digest BLOB,
  UNIQUE (originator_id, originator_version));
CREATE INDEX stored_events_streams ON stored_events (originator_id) WHERE originator_version = 1;
PRAGMA application_id = 0x53747054;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""
LARGE = Noted(text="x" * LIMIT)
"""An event as version 1 stored it: whole."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    state = b'{"@":1700000000000000,"text":"%s"}' % LARGE.text.encode()
    digest = commit_digest(b"", "flow:f1", CommitHead(commit_id="c1", actor="me"), [(1, Noted.TYPE, state)])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)
        connection.execute(
            "INSERT INTO stored_events VALUES (1, 'flow:f1', 1, ?, ?, 'c1', 'me', NULL, 0, NULL, x'', ?)",
            (Noted.TYPE, state, digest),
        )
        connection.commit()
    return path


def schema_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


def test_given_an_older_file_that_is_only_read_then_it_is_read_and_left_as_it_is(path: Path) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        assert [record.event for record in (await store.read("flow:f1")).records] == [LARGE]
        assert await store.snapshot("flow:f1") is None
        assert await store.place("billing") == 0
        assert await store.verify("flow:f1") is None
        assert (await examine(store)).findings == []

    use(open_store(f"sqlite:///{path}", read_only=True), scenario)
    assert schema_version(path) == 1


def test_given_an_older_file_that_is_opened_for_writing_then_it_is_brought_up_and_goes_on(path: Path) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = (await store.read("flow:f1")).head
        end = await store.append("flow:f1", head, commit_of("c2", LARGE, Noted(number=1)))
        await store.keep_snapshot("flow:f1", Snapshot(end, "test.1", b"state"))
        await store.keep_place("billing", 2)
        assert await store.place("billing") == 2
        assert [record.event for record in (await store.read("flow:f1")).records] == [LARGE, LARGE, Noted(number=1)]
        assert await store.verify("flow:f1") is None
        assert (await examine(store)).findings == []

    use(open_store(f"sqlite:///{path}"), scenario)
    assert schema_version(path) == SCHEMA_VERSION == 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM blobs").fetchone() == (1,)


def test_given_a_reader_that_was_there_before_then_it_sees_what_the_newer_version_writes(path: Path) -> None:
    async def scenario(reader: RecorderEventStore) -> None:
        assert await reader.version("flow:f1") == 1
        writer = open_store(f"sqlite:///{path}")
        head = (await writer.read("flow:f1")).head
        end = await writer.append("flow:f1", head, commit_of("c2", LARGE))
        await writer.keep_snapshot("flow:f1", Snapshot(end, "test.1", b"state"))
        assert [record.event for record in (await reader.read("flow:f1")).records] == [LARGE, LARGE]
        assert await reader.snapshot("flow:f1") == Snapshot(end, "test.1", b"state")
        await writer.close()

    use(open_store(f"sqlite:///{path}", read_only=True), scenario)
