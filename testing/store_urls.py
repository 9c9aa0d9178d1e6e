"""Where the stores are that the harness is let loose on, by their short names, and how it opens them."""

import os
from pathlib import Path
from typing import Final, Protocol

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.ports import EventStore

__all__ = ["POSTGRES_VARIABLE", "STORES", "TestedStore", "opened", "store_url"]

STORES: Final = ("sqlite", "postgres")
POSTGRES_VARIABLE: Final = "STEPTRAIL_TEST_POSTGRES"


def store_url(name: str, folder: Path) -> str:
    """Return the address of a store to use up: `sqlite` makes a file in `folder`, `postgres` is taken as it is found.

    Raises `ConfigurationError` for another name, and when nobody says where PostgreSQL is.
    """
    if name == "sqlite":
        return f"sqlite:///{(folder / 'runs.db').resolve()}"
    if name != "postgres":
        raise ConfigurationError(f"there is no store {name!r}: they are {', '.join(STORES)}")
    if url := os.environ.get(POSTGRES_VARIABLE):
        return url
    raise ConfigurationError(f"set {POSTGRES_VARIABLE} to the address of an empty database: postgresql://…")


class TestedStore(EventStore, Protocol):
    """What the harness needs of a store: the port, and a check of the digests."""

    async def verify(self, stream: str) -> object | None:
        """Return the first commit of the stream that is not what was appended, or nothing."""
        ...


def opened(url: str) -> TestedStore:
    """Open a store for the harness."""
    # A SIGKILL loses nothing that has reached the operating system, and a machine that is busy is no finding.
    return open_store(url, durability="normal", busy_timeout=60.0)
