"""One store with a run of each kind, and clients of the inspector over it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from steptrail import Steptrail
from steptrail.inspector import Access, inspector
from tests.inspector.inspected import build

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


def everything(request: object) -> Access:
    """Authorize everybody."""
    assert request is not None
    return Access()


@pytest.fixture(scope="session")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the store, which no test changes."""
    place = tmp_path_factory.mktemp("inspected") / "runs.db"
    asyncio.run(_built(f"sqlite:///{place}"))
    return place


async def _built(store: str) -> None:
    await build(store)
    async with Steptrail.open(store) as trail:
        await trail.views.wait()


@pytest.fixture
def opened(inspected: Path) -> Opened:
    """Opens the inspector with some settings."""

    @asynccontextmanager
    async def client(**settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
        settings.setdefault("authorize", everything)
        async with Steptrail.open(f"sqlite:///{inspected}", create=False, read_only=True) as trail:
            transport = httpx.ASGITransport(inspector(trail, **settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as made:
                yield made

    return client
