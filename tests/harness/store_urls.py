"""Where the stores are that the harness is let loose on, by their short names, and how it opens them."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.ports import EventStore

STORES: Final = ("sqlite", "postgres")
POSTGRES_VARIABLE: Final = "STEPTRAIL_TEST_POSTGRES"

_LEASE_SECONDS = 0.2
"""Short beside what the harness does between two kills, and long beside the way to the server and back."""


@contextmanager
def store_to_use_up(name: str, folder: Path) -> Generator[str]:
    """Yield the address of an empty store: `sqlite` is a file in `folder`, `postgres` a server for as long as it lasts.

    A database named in the environment variable `STEPTRAIL_TEST_POSTGRES` is taken as it is found, and no server is
    started. Raises `ConfigurationError` for another name, and when there is no server to start.
    """
    if name == "sqlite":
        yield f"sqlite:///{(folder / 'runs.db').resolve()}"
    elif name != "postgres":
        raise ConfigurationError(f"there is no store {name!r}: they are {', '.join(STORES)}")
    elif url := os.environ.get(POSTGRES_VARIABLE):
        yield url
    else:
        from tests.harness.postgres_server import PostgresServer

        with PostgresServer(settings=()) as server:
            yield server.url(server.create_database())


class TestedStore(EventStore, Protocol):
    """What the harness needs of a store: the port, and checks of the digests and of what lies beside the events."""

    async def verify(self, stream: str) -> object | None:
        """Return the first commit of the stream that is not what was appended, or None."""
        ...

    async def blob_faults(self) -> Sequence[object]:
        """Return the blobs that are damaged, and those that no event refers to."""
        ...


def opened(url: str) -> TestedStore:
    """Open a store for the harness."""
    # A SIGKILL loses nothing that has reached the operating system, and a machine that is busy is no finding.
    return open_store(url, durability="normal", busy_timeout=60.0)


def with_short_leases(url: str, seconds: float = _LEASE_SECONDS) -> str:
    """Return the address of the same store with leases that soon run out, where that is what frees those of the dead.

    For sessions that one process runs at a time: where others wait for it, a machine that is busy would hand it on.
    """
    if not url.startswith("postgresql:"):
        return url
    return f"{url}{'&' if '?' in url else '?'}lease_seconds={seconds}"
