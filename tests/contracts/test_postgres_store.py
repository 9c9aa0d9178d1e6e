"""PostgreSQL keeps the contract of event stores."""

from functools import partial

import pytest

from steptrail.infrastructure.store import open_store
from steptrail.testing.store_auxiliary_contract import StoreAuxiliaryContract
from steptrail.testing.store_contract import Opener, SharedStoreContract


class TestPostgres(SharedStoreContract, StoreAuxiliaryContract):
    @pytest.fixture
    def url(self, postgres_store_url: str) -> str:
        return postgres_store_url

    @pytest.fixture
    def opener(self, url: str) -> Opener:
        # The lease of a process that was killed is waited for.
        return partial(open_store, f"{url}?lease_seconds=10")
