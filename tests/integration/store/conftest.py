"""What tests of stores in files begin with."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.infrastructure.store import open_store
from tests.integration.store.kit import add, url, use


@pytest.fixture
async def made(tmp_path: Path) -> Path:
    """A store in a file, with one event."""
    path = tmp_path / "runs.db"
    await use(open_store(url(path)), add)
    return path


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder, and a test without the rights of root, to whom they mean nothing."""
    folder = Path(tempfile.mkdtemp(prefix="steptrail-", dir="/tmp"))
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    own = folder / "own"
    own.mkdir()
    try:
        yield own
    finally:
        own.chmod(0o777)
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)
