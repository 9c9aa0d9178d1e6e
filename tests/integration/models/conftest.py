from collections.abc import Iterator

import pytest

from steptrail.testing.model_server import ModelServer


@pytest.fixture(scope="session")
def typed_server() -> Iterator[ModelServer]:
    """One server for many tests, because it imports the SDKs whose types it checks requests against."""
    with ModelServer([], typed=True) as server:
        yield server
