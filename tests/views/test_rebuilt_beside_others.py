"""Somebody rebuilds read models while others make the first ones, apply the log, or erase what was counted."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.opening import open_store
from tests.views.counting import TOTALS, note
from tests.views.kit import rows, viewed


def elsewhere(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Do something in a loop of another thread, to its end, while this one stands still."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


class Eraser:
    """Erases streams, the last of them first, each when one more page of the log has been read."""

    def __init__(self, url: str, streams: list[str]) -> None:
        self._url, self.left = url, streams

    def __call__(self, point: str) -> None:
        if point == "page-read" and self.left:
            elsewhere(self._erase)

    async def _erase(self) -> None:
        store = open_store(self._url)
        await store.erase({self.left.pop(): 1}, at=1, by="ana", reason="test")
        await store.close()


async def test_a_rebuild_begins_again_where_something_was_erased_on_the_way(store_url: str) -> None:
    eraser = Eraser(store_url, ["agent:1", "agent:3"])
    async with viewed(store_url, most=2, reach=eraser) as (store, views):
        for number in range(8):
            await note(store, f"agent:{number}", number)
        number = await views.rebuild()
        assert not eraser.left
        assert (await views.present()).number == number
        assert await rows(views, TOTALS) == [("even", 4, 12), ("odd", 2, 12)]


async def test_a_rebuild_gives_up_where_something_is_erased_again_and_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(store_url) as (store, views):
        for number in range(4):
            await note(store, f"agent:{number}", number)
        await views.catch_up()
        present = await views.present()
    monkeypatch.setattr("steptrail.infrastructure.views.views._TRIES", 1)
    async with viewed(store_url, reach=Eraser(store_url, ["agent:1"])) as (_, views):
        with pytest.raises(StoreUnavailable, match="erased again and again"):
            await views.rebuild()
        assert (await views.present()).number == present.number
