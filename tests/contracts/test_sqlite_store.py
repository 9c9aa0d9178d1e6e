"""SQLite, in a file and in memory, keeps the contract of event stores."""

from functools import partial
from pathlib import Path

import pytest

from steptrail.infrastructure.store import open_store
from steptrail.testing.store_auxiliary_contract import StoreAuxiliaryContract
from steptrail.testing.store_contract import EventStoreContract, Opener, SharedStoreContract


class TestSqliteFile(SharedStoreContract, StoreAuxiliaryContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'runs.db'}"

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        return partial(open_store, url)


class TestSqliteFileNormal(SharedStoreContract, StoreAuxiliaryContract):
    """The other durability, at a path that has to be quoted."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'läufe mode=memory #1 100%.db'}"

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        return partial(open_store, url, durability="normal")


class TestSqliteMemory(EventStoreContract, StoreAuxiliaryContract):
    @pytest.fixture
    def opener(self) -> Opener:
        return partial(open_store, "sqlite:///:memory:")
