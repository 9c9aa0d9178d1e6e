"""On SQLite the events of a stream are found by its commits: quickly, and what no commit leads to is found as well."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import CorruptRecord, MissingRecord, StoreError
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store.core.blobs import encode_commit
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.sqlite import recorder
from steptrail.infrastructure.store.sqlite.connections import fetch_all
from steptrail.testing.store_contract import Noted, commit_of

OF_ONE = "SELECT * FROM stored_events WHERE stream = 'agent:a'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def filled(path: Path) -> RecorderEventStore:
    """Return a store with commits of two events each, in two streams by turns."""
    store = open_store(f"sqlite:///{path}")
    heads = dict.fromkeys(("agent:a", "agent:b"), EMPTY_STREAM)
    for number in range(3):
        for stream, head in heads.items():
            commit = commit_of(f"{stream}-{number}", Noted(number=number), Noted(text=f"CANARY {number}"))
            heads[stream] = await store.append(stream, head, commit)
    return store


async def test_no_question_of_a_stream_goes_through_all_events(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Sequence[Any]]] = [
        (OF_ONE, ()),
        (f"{OF_ONE} ORDER BY version DESC LIMIT 3", ()),
        (f"{OF_ONE} AND type = 'test.noted.v1'", ()),
        ("SELECT * FROM stored_events WHERE position > 3 AND position < 6 ORDER BY position", ()),
    ]

    def noted(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> list[Any]:
        asked.append((statement, parameters))
        return fetch_all(connection, statement, parameters)

    monkeypatch.setattr(recorder, "fetch_all", noted)
    store = await filled(path)
    assert [record.version for record in (await store.read("agent:a", after=2, limit=3)).records] == [3, 4, 5]
    assert len((await store.read("agent:a", after=EMPTY_STREAM)).records) == 6
    assert [position async for position, _, _ in store.log(after=2, stream="agent:a", limit=2)] == [5, 6]
    assert await store.version("agent:a") == 6
    assert await store.snapshot("agent:a") is None
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        for statement, parameters in asked:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert [step for step in plan if step.startswith("SCAN")] == [], statement
            assert "USE TEMP B-TREE FOR ORDER BY" not in plan or statement.startswith(OF_ONE), statement


async def found_and_steps(path: Path, *, after: int = 0, types: Sequence[str] = ()) -> tuple[list[Event], int]:
    """Return these events of a stream, and how many steps of SQLite it takes to find them."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def found(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> list[Any]:
        connection.set_progress_handler(step, 1)
        return fetch_all(connection, statement, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "fetch_all", found)
        store = open_store(f"sqlite:///{path}", read_only=True)
        events = [record.event async for _, _, record in store.log(after=after, types=types, stream="agent:a")]
        await store.close()
    return events, steps[0]


async def work_of_one_type(path: Path, commits: int) -> int:
    """Return how many steps of SQLite it takes to find the events of one type in a stream of so many commits."""
    store, head = open_store(f"sqlite:///{path}", durability="normal"), EMPTY_STREAM
    for number in range(commits):
        head = await store.append("agent:a", head, commit_of(f"c{number}", Noted(number=number), Noted()))
    await store.close()
    found, steps = await found_and_steps(path, types=["test.noted.v1"])
    assert len(found) == 2 * commits
    return steps


async def test_events_of_one_type_in_a_stream_of_twice_the_length_take_twice_the_work(tmp_path: Path) -> None:
    few, many = [await work_of_one_type(tmp_path / f"{size}.db", size) for size in (40, 80)]
    assert many < 2.5 * few


async def test_given_a_commit_of_another_process_between_two_looks_then_a_sound_stream_is_not_said_to_be_cut(
    path: Path,
) -> None:
    writer = await filled(path)
    for number in range(6):
        reader, looks = open_store(f"sqlite:///{path}", read_only=True), 0

        def looked(connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]) -> list[Any]:
            nonlocal looks
            found = fetch_all(connection, statement, parameters)
            if looks == number:  # noqa: B023 - called in this turn only
                head = writer.recorder.select_head("agent:a")
                commit = commit_of(f"between {number}", Noted())  # noqa: B023
                rows = encode_commit(commit, head.version)
                (stored,) = writer.recorder.append([PendingCommit("agent:a", head, commit.head, rows)])
                assert not isinstance(stored, StoreError)
            looks += 1
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recorder, "fetch_all", looked)
            assert await reader.verify("agent:a") is None
        await reader.close()
    await writer.close()


async def test_given_a_commit_that_is_gone_then_its_events_are_missing_and_belong_to_none(path: Path) -> None:
    store = await filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM commits WHERE commit_id = 'agent:a-1'")
    with pytest.raises(MissingRecord):
        await store.read("agent:a")
    assert await store.strays() == [("agent:a", 3)]
    await store.close()


async def test_given_the_last_commit_is_gone_then_its_events_are_found_though_no_question_of_the_stream_sees_them(
    path: Path,
) -> None:
    store = await filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM commits WHERE commit_id = 'agent:a-2'")
    assert (await store.read("agent:a")).head.version == 4
    assert await store.strays() == [("agent:a", 5)]
    assert len([position async for position, _, _ in store.log()]) == 12
    await store.close()


async def test_an_erasure_removes_events_of_a_commit_that_is_gone(path: Path) -> None:
    store = await filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM commits WHERE commit_id IN ('agent:a-2', 'agent:b-2')")
    await store.erase({"agent:a": 4}, at=1, by="ana", reason="asked to")
    await store.erase({"agent:b": 4}, at=1, by="ana", reason="asked to")
    assert await store.scrub() is None
    assert await store.strays() == []
    assert len([position async for position, _, _ in store.log()]) == 2
    await store.close()
    assert b"CANARY" not in path.read_bytes()


@pytest.mark.parametrize("limit", [3, 4])
async def test_an_event_gets_no_head_of_a_commit_whose_size_says_more_than_there_is(path: Path, limit: int) -> None:
    store = await filled(path)
    assert len((await store.read("agent:a", limit=limit)).records) == limit
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE commits SET size = 100 WHERE commit_id = 'agent:a-0'")
    with pytest.raises(CorruptRecord, match="commit 'agent:a-0' lays claim to it, and it is of 'agent:a-1'"):
        await store.read("agent:a", limit=limit)
    with pytest.raises(CorruptRecord):
        await store.read("agent:a")
    await store.close()


async def test_an_event_that_two_commits_lay_claim_to_is_read_once_and_then_named(path: Path) -> None:
    store = await filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE commits SET position = 1, size = 100 WHERE commit_id = 'agent:a-1'")
    types, faults = ["test.noted.v1"], list[CorruptRecord]()
    read = [record.version async for _, _, record in store.log(types=types, stream="agent:a", on_corrupt=faults.append)]
    assert read == [1, 2, 3, 4, 5, 6]
    assert {fault.stream for fault in faults} == {"agent:a"}
    with pytest.raises(CorruptRecord, match="out of order"):
        assert [position async for position, _, _ in store.log(types=types, stream="agent:a")] == []
    await store.close()


async def test_a_commit_that_says_it_has_more_events_is_named_before_more_are_appended(path: Path) -> None:
    store = await filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE commits SET size = 3 WHERE commit_id = 'agent:b-2'")
    fault = await store.verify("agent:b")
    assert (fault and fault.why) == "it has 2 events and says that they are 3"
    await store.close()


async def work_of_what_is_new(path: Path, commits: int) -> int:
    """Return how many steps of SQLite it takes to find what is new in a stream of so many commits and one more."""
    store, head = open_store(f"sqlite:///{path}", durability="normal"), EMPTY_STREAM
    for number in range(commits):
        head = await store.append("agent:a", head, commit_of(f"c{number}", Noted(number=number)))
    await store.append("agent:b", EMPTY_STREAM, commit_of("other", Noted()))
    seen = await store.last_position()
    await store.append("agent:a", head, commit_of("new", Noted(text="new")))
    await store.close()
    found, steps = await found_and_steps(path, after=seen)
    assert found == [Noted(text="new")]
    return steps


async def test_what_is_new_in_a_stream_takes_no_more_work_where_much_stands_before_it(tmp_path: Path) -> None:
    few, many = [await work_of_what_is_new(tmp_path / f"{size}.db", size) for size in (40, 400)]
    assert many < 1.5 * few
