"""Where the stores are that the harness is let loose on, by their short names."""

import os
from pathlib import Path
from typing import Final

from steptrail.domain.errors import ConfigurationError

__all__ = ["POSTGRES_VARIABLE", "STORES", "store_url"]

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
