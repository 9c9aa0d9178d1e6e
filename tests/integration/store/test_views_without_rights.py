"""The folder of a store may not be looked into any more, while a process has the store and its read models open."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
