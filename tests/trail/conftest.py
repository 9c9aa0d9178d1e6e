"""Each test of the trail runs on both stores; the fast tests leave out the server."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.runtime.kernel import looking, woken
from steptrail.runtime.kernel.due_look import DueLook
from steptrail.runtime.kernel.engine import Engine
from tests.conftest import store_of
from tests.harness.mischievous_engine import Mischief, MischievousEngine
from tests.trail.workers import Desk, Place, until


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers look ten times a second, and are woken soon again: the seconds in between show nothing."""
    monkeypatch.setattr(looking, "_LOOK_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(woken, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(woken, "_FIRST_REST_SECONDS", 0.05)
    monkeypatch.setattr(woken, "_LONGEST_REST_SECONDS", 0.2)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow("asks a server"))])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store in a file, and of one on a server."""
    return store_of(request, tmp_path)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def pass_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[None]]:
    """Return a function that waits until workers have looked a few times more, and seen what they can see."""
    begun, rows = list[DueLook](), DueLook.rows

    def noted(due: DueLook, now: int, soon: int, hands: int) -> AsyncGenerator[RunSummary]:
        begun.append(due)
        return rows(due, now, soon, hands)

    monkeypatch.setattr(DueLook, "rows", noted)

    async def wait() -> None:
        seen = len(begun)
        await until(lambda: len(begun) > seen + 3)

    return wait


@pytest.fixture(
    params=[
        "sqlite",
        "sqlite, woken by mischief",
        pytest.param("postgres, woken by procrastinate", marks=pytest.mark.slow("asks a server")),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store of each kind, with workers that look and workers that are woken. Those that are woken look as well."""
    store, _, engine = str(request.param).partition(", woken by ")
    url = (
        f"sqlite:///{tmp_path / 'runs.db'}" if store == "sqlite" else str(request.getfixturevalue("postgres_store_url"))
    )
    mischief = Mischief()
    made: dict[str, Callable[[], Engine | None]] = {
        "": lambda: None,
        "mischief": lambda: MischievousEngine(mischief),
        "procrastinate": lambda: ProcrastinateEngine(url, poll=0.05),
    }
    return Place(url, made[engine])
