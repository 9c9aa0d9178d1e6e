"""Shops that speak MCP, open while a test runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mcp.shop import Shop


@pytest.fixture(params=["stdio", "http", "legacy"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """The shop on every way: standard streams and HTTP, and HTTP with the handshake and session of older servers."""
    shop = Shop(tmp_path, request.param)
    yield shop
    shop.close()


@pytest.fixture
def process(tmp_path: Path) -> Shop:
    """The shop as a process of the client's."""
    return Shop(tmp_path, "stdio")
