"""Whoever serves pages counts when it makes none."""

import asyncio
from pathlib import Path

import pytest

from tests.views.counting import STREAMS, note
from tests.views.kit import elsewhere, rows, viewed


async def test_a_batch_waits_for_what_is_more_urgent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.turns._PUT_OFF_SECONDS", 3_600)
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (store, views):
        await note(store, "agent:a", 1, 2)
        await views.present()
        with views.turns.put_off(), views.turns.put_off():
            counting = asyncio.create_task(views.catch_up())
            done, _ = await asyncio.wait([counting], timeout=0.2)
            assert not done
            assert await rows(views, STREAMS) == []
            with views.turns.needed(), views.turns.needed():
                await counting
        assert len(await rows(views, STREAMS)) == 1


async def test_what_is_always_more_urgent_does_not_stop_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.turns._PUT_OFF_SECONDS", 0.01)
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (store, views):
        await note(store, "agent:a", 1, 2)
        with views.turns.put_off():
            await views.catch_up()
        assert len(await rows(views, STREAMS)) == 1


async def test_batches_of_several_event_loops_wait_for_what_is_more_urgent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.turns._PUT_OFF_SECONDS", 0.04)
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (store, views):
        with views.turns.put_off():
            for number in range(2):
                await note(store, f"agent:{number}", 1, 2)
                elsewhere(views.catch_up)
        assert len(await rows(views, STREAMS)) == 2
