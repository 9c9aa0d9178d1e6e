"""SQLite, in a file and in memory, keeps the contract of event stores."""

from functools import partial
from pathlib import Path

import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_auxiliary_contract import StoreAuxiliaryContract
from steptrail.testing.store_contract import EventStoreContract, Noted, Opener, SharedStoreContract, commit_of
from steptrail.testing.store_samples import on_a_store

ODD = "läufe mode=memory #1 100%.db"


class TestSqliteFile(SharedStoreContract, StoreAuxiliaryContract):
    """At a path that has to be quoted."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / ODD}"

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        return partial(open_store, url)

    @on_a_store
    async def test_the_file_has_the_name_of_the_path(self, store: EventStore, tmp_path: Path) -> None:
        await store.append("agent:s", EMPTY_STREAM, commit_of("c1", Noted()))
        assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {ODD, f"{ODD}-shm", f"{ODD}-wal"}


class TestSqliteMemory(EventStoreContract, StoreAuxiliaryContract):
    @pytest.fixture
    def opener(self) -> Opener:
        return partial(open_store, "sqlite:///:memory:")
