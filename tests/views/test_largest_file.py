"""Where a file may not grow any more, the read models say so, and go on when it may."""

import resource
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import StoreFull
from tests.views.kit import desk


async def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
        try:
            with pytest.raises(StoreFull, match=r"a file may have 60,000 bytes at most \(`ulimit -f`\)"):
                await trail.views.stats()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (await trail.views.stats()).total.runs == 1
