from collections.abc import Iterator

import pytest

from steptrail.infrastructure.models.llama_server import LlamaServer, ServerKey, server_for
from steptrail.infrastructure.models.local import find_weights
from steptrail.testing.model_server import ModelServer


@pytest.fixture(scope="session")
def typed_server() -> Iterator[ModelServer]:
    """One server for many tests, because it imports the SDKs whose types it checks requests against."""
    with ModelServer([], typed=True) as server:
        yield server


@pytest.fixture(scope="module")
def local_server() -> LlamaServer:
    """The server of every local model of a module: the last of them that is closed does not stop it."""
    return server_for(ServerKey(find_weights(), 4096, 1))
