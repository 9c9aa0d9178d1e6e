"""Each test of the trail runs on both stores; the fast tests leave out the server."""

from pathlib import Path

import pytest

from tests.conftest import store_of


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow("asks a server"))])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store in a file, and of one on a server."""
    return store_of(request, tmp_path)
