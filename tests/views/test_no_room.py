"""Read models that find no room leave none of their files behind, so that the runs beside them can go on."""

import os
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import StoreFull
from tests.harness.scarce import largest_file
from tests.views.kit import desk


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.db")}


async def test_a_rebuild_that_finds_no_room_gives_back_what_it_took(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        assert (await trail.views.stats()).total.runs == 1
        with largest_file(60_000), pytest.raises(StoreFull):
            await trail.views.rebuild()
        assert names(tmp_path / "runs.db-views") == {"1.db", "current.db"}
        assert (await trail.views.stats()).total.runs == 1


async def test_a_rebuild_first_removes_what_one_that_was_killed_has_left(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        await trail.views.stats()
        (tmp_path / "runs.db-views" / "2.db").write_bytes(b"half of the rows")
        with largest_file(1), pytest.raises(StoreFull):
            await trail.views.rebuild()
        assert "2.db" in names(tmp_path / "runs.db-views"), "without a lease nothing is touched"
        with largest_file(60_000), pytest.raises(StoreFull):
            await trail.views.rebuild()
        assert names(tmp_path / "runs.db-views") == {"1.db", "current.db"}


async def test_whoever_asks_again_and_again_without_room_collects_no_files_and_no_descriptors(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        open_after: list[int] = []
        for _ in range(4):
            with largest_file(60_000), pytest.raises(StoreFull):
                await trail.views.stats()
            open_after.append(len(os.listdir("/proc/self/fd")))
        assert open_after[1:] == open_after[:1] * 3
        assert not names(tmp_path / "runs.db-views")
        assert (await trail.views.stats()).total.runs == 1


@pytest.mark.parametrize("room", [1, 60_000])
async def test_what_was_counted_can_be_asked_for_where_there_is_no_room_to_count_on(tmp_path: Path, room: int) -> None:
    """There is none for the lease of who counts, or none for the rows."""
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        assert (await trail.views.stats()).total.runs == 1
        await trail.run(desk("Found."), "hi", session="b")
        with largest_file(room):
            assert (await trail.views.stats()).total.runs == 1
        assert (await trail.views.stats()).total.runs == 2
