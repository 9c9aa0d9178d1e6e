"""A record that cannot be read: its stream stays as it was, others go on, and what is mended is counted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steptrail.domain.errors import StoreDamaged
from tests.harness.hands import by_hand, change_by_hand
from tests.views.counting import STREAMS, TOTALS, note
from tests.views.kit import contents, rows, viewed


async def test_a_stream_stays_as_it_was_before_its_damage_until_that_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}"
    async with viewed(url) as (store, _):
        await note(store, "agent:a", 1, 2, 3)
        await note(store, "agent:b", 4)
        await note(store, "flow:c", 1)
    with by_hand(path) as connection:
        sound = dict(
            connection.execute("SELECT position, state FROM stored_events WHERE position IN (2, 5)").fetchall()
        )
    for position in sound:
        change_by_hand(path, "UPDATE stored_events SET state = X'00' WHERE position = ?", position)
    async with viewed(url) as (_, views):
        await views.catch_up()
        assert [row[1:4] for row in await rows(views, STREAMS)] == [("agent:a", 1, 1), ("agent:b", 1, 4)]
        damaged = await views.fetch("SELECT stream, position, stream_version FROM damaged")
        assert damaged.rows == [("agent:a", 2, 2)]
        assert damaged.as_of.position == 5
    for position, state in sound.items():
        change_by_hand(path, "UPDATE stored_events SET state = ? WHERE position = ?", state, position)
    async with viewed(url) as (_, views):
        await views.catch_up()
        assert [row[1:4] for row in await rows(views, STREAMS)] == [("agent:a", 3, 6), ("agent:b", 1, 4)]
        assert (await views.fetch("SELECT stream FROM damaged")).rows == []


async def test_a_stream_stays_as_it_was_before_its_damage_on_all_pages_of_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}"
    async with viewed(url) as (store, _):
        await note(store, "agent:a", 1, 2)
        await note(store, "agent:b", 4)
        await note(store, "agent:a", 3, 5)
    change_by_hand(path, "UPDATE stored_events SET state = X'00' WHERE position = 2")
    # A page has two entries, and a batch of a rebuild has all pages.
    async with viewed(url, most=2) as (_, views):
        await views.catch_up()
        found = await contents(views)
        assert [row[1:4] for row in found["v1_streams"]] == [("agent:a", 1, 1), ("agent:b", 1, 4)]
        assert await views.verify() == []
        await views.rebuild()
        assert await contents(views) == found


async def test_what_is_mended_is_counted_also_where_something_before_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}"
    async with viewed(url) as (store, _):
        for name in "abc":
            await note(store, f"agent:{name}", 1, 2)
    with by_hand(path) as connection:
        ((sound,),) = connection.execute("SELECT state FROM stored_events WHERE position = 4").fetchall()
    for position in (2, 4, 6):
        change_by_hand(path, "UPDATE stored_events SET state = X'00' WHERE position = ?", position)
    async with viewed(url) as (_, views):
        await views.catch_up()
        assert [row[1:4] for row in await rows(views, STREAMS)] == [(f"agent:{name}", 1, 1) for name in "abc"]
        change_by_hand(path, "UPDATE stored_events SET state = ? WHERE position = 4", sound)
        # One is looked at each time, whether the log grows, and by how much, or not.
        for _ in range(500):
            if (await views.fetch("SELECT count(*) FROM damaged")).rows != [(3,)]:
                break
            await views.catch_up()
        found = [("agent:a", 1, 1), ("agent:b", 2, 3), ("agent:c", 1, 1)]
        assert [row[1:4] for row in await rows(views, STREAMS)] == found
        assert (await views.fetch("SELECT stream FROM damaged ORDER BY stream")).rows == [("agent:a",), ("agent:c",)]
        assert await views.verify() == []


async def test_read_models_of_a_version_with_fewer_books_are_made_anew_by_a_rebuild(tmp_path: Path) -> None:
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        with closing(sqlite3.connect(tmp_path / "runs.db-views" / "1.db")) as connection:
            connection.execute("ALTER TABLE projections DROP COLUMN erased_at")
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (_, views):
        with pytest.raises(StoreDamaged, match="`steptrail rebuild` makes them anew"):
            await views.catch_up()
        assert await views.rebuild() == 2
        assert await rows(views, TOTALS) == [("odd", 1, 1)]
