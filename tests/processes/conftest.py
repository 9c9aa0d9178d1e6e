"""One crew of workers for all scenarios, one stage for each; what it still holds at the end is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.testing.crew import Crew
from tests.processes.stage import Stage


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    with Crew(path=[Path(__file__).parents[2]]) as made:
        yield made


@pytest.fixture
def stage(tmp_path: Path, crew: Crew) -> Iterator[Stage]:
    made = Stage(tmp_path, crew)
    yield made
    made.clear()
