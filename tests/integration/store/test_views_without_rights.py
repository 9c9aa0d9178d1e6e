"""Read models beside a store, or in the user's cache, where the folder of the store may not be used."""

import pwd
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.views.opening import open_series
from steptrail.infrastructure.views.views import Views
from tests.integration.store.kit import url
from tests.views.counting import Counting, note


async def test_a_folder_that_may_not_be_looked_into_any_more_ends_questions_in_an_error_of_ours(
    unprivileged: Path,
) -> None:
    ThreadPoolExecutor().shutdown()  # it is imported late, which takes rights that are gone by then
    store = open_store(url(unprivileged / "runs.db"))
    views = Views(store, open_series(store), [Counting()])
    await note(store, "agent:a", 1)
    await views.catch_up()
    unprivileged.chmod(0)
    assert await views.status() == ((), 0, 0)
    later = Views(store, open_series(store), [Counting()])
    for each in (views, later):
        with pytest.raises(StoreUnavailable, match=r"runs\.db cannot be reached: Permission denied"):
            await each.catch_up()
        await each.close()
    await store.close()


async def test_a_store_whose_folder_may_not_be_written_is_counted_in_a_cache_that_is_not_there_yet(
    unprivileged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, cache = url(unprivileged / "runs.db"), unprivileged.parent / "home" / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    store = open_store(address)
    await note(store, "agent:a", 1)
    await store.close()
    unprivileged.chmod(0o555)

    reader = open_store(address, read_only=True)
    views = Views(reader, open_series(reader), [Counting()])
    await views.catch_up()
    assert len((await views.status())[0]) == 1
    assert (cache / "steptrail").is_dir()
    await views.close()
    await reader.close()


@pytest.mark.parametrize("has_home", [True, False])
async def test_who_has_no_cache_either_counts_in_a_temporary_folder(
    unprivileged: Path, monkeypatch: pytest.MonkeyPatch, has_home: bool
) -> None:
    def nobody(_: int) -> NoReturn:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(unprivileged))
    if not has_home:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", nobody)
    address = url(unprivileged / "runs.db")
    store = open_store(address)
    await note(store, "agent:a", 1)
    await store.close()
    unprivileged.chmod(0o555)
    before = {each.name for each in unprivileged.iterdir()}

    reader = open_store(address, read_only=True)
    views = Views(reader, series := open_series(reader), [Counting()])
    await views.catch_up()
    assert len((await views.status())[0]) == 1
    await views.close()
    await reader.close()
    assert {each.name for each in unprivileged.iterdir()} == before
    assert not Path(series.place).exists()
