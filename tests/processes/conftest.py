"""One stage for each scenario; whatever process it still holds at the end is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.clear()
