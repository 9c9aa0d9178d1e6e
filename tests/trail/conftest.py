"""Each test of the trail runs on both stores; the fast tests leave out the server."""

from pathlib import Path

import pytest

from steptrail.runtime.kernel import looking, woken
from tests.conftest import store_of


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
