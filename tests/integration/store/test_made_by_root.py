"""What root does with the store of somebody else keeps that one from nothing: root's files are theirs."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.errors import SessionBusy
from steptrail.infrastructure.store import open_store
from tests.integration.store.kit import add, url, use
from tests.views.kit import desk


@contextmanager
def as_root() -> Generator[None]:
    """Do something as root, where the test may: elsewhere nobody is anybody else."""
    before = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(before)


async def test_leases_that_root_takes_first_keep_nobody_else_from_taking_others(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    await use(open_store(url(path)), add)
    with as_root():
        roots = open_store(url(path))
        lease = await roots.acquire("agent:a", owner="root")
    ours = open_store(url(path))
    await (await ours.acquire("agent:b", owner="us")).release()
    with pytest.raises(SessionBusy, match="root"):
        await ours.acquire("agent:a", owner="us")
    with as_root():
        await lease.release()
        await roots.close()
    await (await ours.acquire("agent:a", owner="us")).release()
    await ours.close()


async def test_read_models_that_root_has_made_are_counted_on_by_others(unprivileged: Path) -> None:
    address = url(unprivileged / "runs.db")
    async with Steptrail.open(address) as trail:
        await trail.run(desk("Found."), "hi", session="a")
    with as_root():
        async with Steptrail.open(address) as trail:
            await trail.views.rebuild()
    async with Steptrail.open(address) as trail:
        await trail.run(desk("Found."), "hi", session="b")
        assert (await trail.views.stats()).total.runs == 2
        await trail.views.rebuild()
        assert (await trail.views.stats()).total.runs == 2
