"""PostgreSQL keeps the contract of event stores."""

import pytest

from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Opener, SharedStoreContract
from steptrail.testing.store_side_contract import StoreSideContract


class TestPostgres(SharedStoreContract, StoreSideContract):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        return lambda: open_store(url)


class TestPostgresNormal(TestPostgres):
    """The other durability."""

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        return lambda: open_store(url, durability="normal")
