"""Finds the place of the read models of a store: beside its file, or in its database.

Where the folder of a file cannot be written, they are kept in the user's cache. A store in memory has them in a
temporary folder, and so has one that is read by a user without a cache.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.file_errors import temporary_folder
from steptrail.infrastructure.views.series import Series
from steptrail.runtime.kernel.ports import EventStore


def open_series(store: EventStore) -> Series:
    """Return the generations of a set of read models of an open store.

    Raises `ConfigurationError` for a store that was not opened at an address.
    """
    origin = store.origin if isinstance(store, RecorderEventStore) else None
    if origin is None:
        raise ConfigurationError("read models need a store that was opened at an address")
    if origin.url.startswith(("postgresql://", "postgres://")):
        from steptrail.infrastructure.store.postgres.address import PostgresAddress
        from steptrail.infrastructure.views.postgres import PostgresSeries

        address = PostgresAddress.parse(origin.url)
        return PostgresSeries(address, patience=origin.patience, read_only=origin.is_read_only)

    from steptrail.infrastructure.views.sqlite import SqliteSeries

    folder = _folder_of(origin.path) if origin.path is not None else None
    if origin.path is None or folder is None:
        temporary = temporary_folder("steptrail-views-")
        return SqliteSeries(Path(temporary.name), patience=origin.patience, temporary=temporary)
    # The folder of a store that was moved away is not made anew. That of the user's cache may not be there yet.
    is_beside = folder.parent == origin.path.parent
    return SqliteSeries(folder, patience=origin.patience, store=origin.path if is_beside else None)


def _folder_of(path: Path) -> Path | None:
    """Return the folder for the read models of a file: beside it, or in the user's cache; None where neither can be."""
    from steptrail.infrastructure.store.sqlite.errors import is_allowed

    beside = path.with_name(f"{path.name}-views")
    if is_allowed(beside if os.path.exists(beside) else path.parent, os.W_OK):
        return beside
    try:
        in_cache = _cache() / "steptrail" / f"{sha256(os.fsencode(path)).hexdigest()[:32]}-views"
    except RuntimeError:  # nobody knows the home of this user, as in a container
        return None
    there = next((each for each in (in_cache, *in_cache.parents) if os.path.exists(each)), in_cache)
    return in_cache if is_allowed(there, os.W_OK) else None


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
