"""An older copy takes the place of a store: what is counted of what came after it is not of this log."""

import shutil
from pathlib import Path

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.testing.store_samples import Written, commit_of
from tests.views.counting import TOTALS, note
from tests.views.kit import rows, viewed


async def test_what_follows_an_older_copy_is_counted_where_the_last_event_that_counts_is_in_both(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    async with viewed(f"sqlite:///{path}") as (store, _):
        await note(store, "agent:a", 1)
    shutil.copy(path, copy)
    async with viewed(f"sqlite:///{path}") as (store, views):
        # The projection reads no event of this type.
        await store.append("agent:b", EMPTY_STREAM, commit_of("b", *(Written(data=number) for number in range(9))))
        await views.catch_up()
        assert (await views.as_of()).position == 10
        assert await rows(views, TOTALS) == [("odd", 1, 1)]
    for left in tmp_path.glob("runs.db*"):
        if left.is_file():
            left.unlink()
    copy.rename(path)
    async with viewed(f"sqlite:///{path}") as (store, views):
        await note(store, "agent:c", 3, 5)
        await store.append("agent:d", EMPTY_STREAM, commit_of("d", *(Written(data=number) for number in range(20))))
        await views.catch_up()
        assert await rows(views, TOTALS) == [("odd", 3, 9)]
        assert await views.verify() == []
