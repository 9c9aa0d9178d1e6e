"""One stage for each scenario; what it still holds at the end is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.worker_pool import WorkerPool
from tests.processes.postgres_stage import PostgresStage
from tests.processes.stage import Stage


@pytest.fixture
def stage(tmp_path: Path, pool: WorkerPool, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage with its store in a file, or where `on_both_stores` says."""
    if getattr(request, "param", "sqlite") == "sqlite":
        made = Stage(tmp_path, pool)
    else:
        database = request.getfixturevalue("postgres_database")
        made = PostgresStage(tmp_path, pool, request.getfixturevalue("postgres_server"), database)
    yield made
    made.clear()
