"""One folder for each scenario; whatever process it still holds at the end is killed."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cli import Cli
from tests.harness.worker_pool import WorkerPool


class Stored:
    """A folder that is made once and copied for each test that wants to begin with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_made = False

    def into(self, cli: Cli, *commands: Sequence[str], **agents: str) -> Cli:
        """Return `cli` with a copy that has these files of agents, and in which these commands were carried out."""
        if not self._is_made:
            making = Cli(self._folder, cli.pool)
            for name, source in agents.items():
                (self._folder / f"{name}.py").write_text(source, encoding="utf-8")
            for command in commands:
                making(*command)
            self._is_made = True
        shutil.copytree(self._folder, cli.folder, dirs_exist_ok=True)
        return cli


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def cli(tmp_path: Path, pool: WorkerPool) -> Iterator[Cli]:
    made = Cli(tmp_path, pool)
    yield made
    made.close()
