"""One folder for each scenario; whatever process it still holds at the end is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    yield made
    made.close()
