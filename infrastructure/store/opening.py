"""From an address to an open store: `sqlite:///runs.db`, `sqlite:////var/lib/runs.db`, `postgresql://host/database`.

The modules of a database are imported when an address asks for it, and not before.
"""

import logging
from typing import TYPE_CHECKING, get_args

from steptrail.domain.errors import ConfigurationError, shown as cut
from steptrail.domain.kernel.given import a_flag, a_time
from steptrail.domain.secrets import without_secrets
from steptrail.domain.storable import is_unicode
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.core.origin import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from steptrail.infrastructure.store.core.event_store import RecorderEventStore

_log = logging.getLogger("steptrail.store")

_UNDERSTOOD = "sqlite:///relative.db, sqlite:////absolute.db, sqlite:///:memory: or postgresql://USER@HOST/DATABASE"
_POSTGRESQL = ("postgresql://", "postgres://")


def open_store(
    url: str,
    *,
    durability: Durability = "full",
    busy_timeout: float = 5.0,
    create: bool = True,
    read_only: bool = False,
) -> "RecorderEventStore":
    """Open the event store at `url`.

    `busy_timeout` is how long a write waits for another process, in seconds. `create=False` refuses a store that is not
    there yet. `read_only=True` does too, and leaves the stored data as it is; where a process has left its log behind,
    SQLite makes an index of that log beside the file again (`-shm`). Raises `ConfigurationError` for an address or a
    setting that is not understood, `MissingExtra` without the driver that it needs, else the `StoreUnavailable` that
    says why. Blocks until the database has answered.
    """
    if durability not in get_args(Durability):
        raise ConfigurationError(f"durability is 'full' or 'normal', not {durability!r}")
    a_time(busy_timeout, "busy_timeout", from_zero=True)
    a_flag(create, "`create`")
    a_flag(read_only, "`read_only`")
    if _log.isEnabledFor(logging.INFO):
        _log.info("opening %s", without_secrets(url))
    if url.startswith(_POSTGRESQL):
        from steptrail.infrastructure.store.postgres.store import open_postgres

        store = open_postgres(url, durability, busy_timeout, create=create, read_only=read_only)
        store.origin = Origin(url, None, busy_timeout, read_only)
        return store
    path = _path(url)

    from steptrail.infrastructure.store.sqlite import opening as sqlite

    if path is None:
        store = sqlite.open_memory(busy_timeout, create=create and not read_only)
    elif read_only:
        store = sqlite.open_for_reading(path, busy_timeout)
    else:
        store = sqlite.open_file(path, durability, busy_timeout, create=create)
    store.origin = Origin(url, path, busy_timeout, read_only)
    return store


def _path(url: str) -> "Path | None":
    scheme, separator, rest = url.partition("://")
    name = rest[1:]
    # Half of a surrogate pair is how Python writes bytes of a file's name that are no text: SQLite takes text.
    is_a_name = name and not {"?", "\0"} & set(name) and is_unicode(name)
    if scheme != "sqlite" or not separator or not rest.startswith("/") or not is_a_name:
        # Another database's address may hold a password.
        is_plain = scheme == "sqlite" or not {"@", "?"} & set(url)
        shown = without_secrets(url) if is_plain else f"{scheme}://…" if separator else "…"
        raise ConfigurationError(f"the store {cut(shown)} is not understood: give {_UNDERSTOOD}")
    import os.path
    from pathlib import Path

    # Resolved once: a later change of the working directory must change neither the file nor the place of its leases.
    # Links that lead in a circle are told of where the file is looked for.
    return None if name == ":memory:" else Path(os.path.realpath(name))
