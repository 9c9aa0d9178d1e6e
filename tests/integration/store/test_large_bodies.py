"""Large bodies in a SQLite file: stored once, with their events or not at all, and repaired by being stored again."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from steptrail.domain.errors import ConcurrencyConflict, StoreError
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store.core.blobs import LIMIT
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.opening import open_store
from steptrail.testing.store_contract import Noted, commit_of
from tests.integration.store.kit import use

LARGE = Noted(text="x" * LIMIT)


def counted(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        count: int = connection.execute("SELECT COUNT(*) FROM blobs").fetchone()[0]
        return count


async def test_given_a_commit_that_conflicts_then_its_bodies_are_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def scenario(store: RecorderEventStore) -> None:
        await store.append("flow:f1", EMPTY_STREAM, commit_of("c1", Noted()))
        with pytest.raises(ConcurrencyConflict):
            await store.append("flow:f1", EMPTY_STREAM, commit_of("c2", LARGE))
        assert counted(path) == 0
        both = (store.append(f"flow:f{i}", EMPTY_STREAM, commit_of("c1", LARGE, LARGE)) for i in (2, 3))
        await asyncio.gather(*both)
        assert counted(path) == 1

    await use(open_store(f"sqlite:///{path}"), scenario)


async def test_given_a_damaged_blob_then_storing_the_body_again_repairs_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def scenario(store: RecorderEventStore) -> None:
        await store.append("flow:f1", EMPTY_STREAM, commit_of("c1", LARGE))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE blobs SET body = 'damaged'")
        assert await store.verify("flow:f1") is not None
        await store.append("flow:f2", EMPTY_STREAM, commit_of("c1", LARGE))
        assert await store.verify("flow:f1") is None
        assert [record.event for record in (await store.read("flow:f1")).records] == [LARGE]

    await use(open_store(f"sqlite:///{path}"), scenario)


async def test_given_many_large_commits_at_once_then_no_server_is_given_all_of_them_together(tmp_path: Path) -> None:
    groups, size = list[int](), 4 << 20

    async def scenario(store: RecorderEventStore) -> None:
        really = store.recorder.append

        def noted(commits: Sequence[PendingCommit], *, as_one: bool = False) -> list[StreamHead | StoreError]:
            groups.append(sum(len(blob.body) for commit in commits for blob in commit.blobs))
            return really(commits, as_one=as_one)

        store.recorder.append = noted  # type: ignore[method-assign]
        text = "x" * size
        await asyncio.gather(
            *(store.append(f"flow:f{i}", EMPTY_STREAM, commit_of("c", Noted(text=f"{i}{text}"))) for i in range(40))
        )
        for i in range(40):
            assert (await store.read(f"flow:f{i}")).records[0].event == Noted(text=f"{i}{text}")

    await use(open_store(f"sqlite:///{tmp_path / 'runs.db'}"), scenario)
    assert sum(groups) > 40 * size
    assert max(groups) < 20 * size
