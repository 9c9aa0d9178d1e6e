"""A store whose folder is moved away under a process, as an unmounted disk is, and is put back again."""

from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import StoreUnavailable
from tests.trail.workers import Desk, ended, until


async def test_a_run_whose_store_went_away_is_carried_on_by_its_own_process_when_that_is_back(tmp_path: Path) -> None:
    """When the tool returned, its result could not be stored, nor could the lease of the run be removed."""
    folder, desk = tmp_path / "store", Desk()
    folder.mkdir()
    desk.gate.clear()
    async with Steptrail.open(f"sqlite:///{folder / 'runs.db'}") as trail:
        await trail.start(desk.agent(), "go", session="s")
        async with trail.work(desk.agent()) as worker:
            await until(lambda: desk.inside == 1)
            folder.rename(tmp_path / "away")
            desk.gate.set()
            await until(lambda: not worker.running)
            (tmp_path / "away").rename(folder)
            await ended(trail, "s")


async def test_nobody_makes_the_folder_of_a_store_anew_in_whose_place_it_is_to_be_put_back(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    async with Steptrail.open(f"sqlite:///{folder / 'runs.db'}") as trail:
        await trail.views.rebuild()
        folder.rename(tmp_path / "away")
        with pytest.raises(StoreUnavailable, match=r"the leases in .* cannot be used: No such file or directory"):
            await trail.views.rebuild()
        with pytest.raises(StoreUnavailable, match=r"the folder of views .* cannot be used: No such file or directory"):
            await trail.views.all.present()
        assert not folder.exists()
        (tmp_path / "away").rename(folder)
        assert await trail.views.rebuild() == 2
