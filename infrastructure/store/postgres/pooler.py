"""Tells whether a connection has a session of the server to itself.

A store sets its sessions up, listens on them and prepares statements. A pooler in transaction mode lends a session out
for one transaction and then to somebody else. Then settings and statements are those of others, and no announcement
comes, all of it without an error, so such a pooler is refused when a store or an engine is opened.
"""

from collections.abc import Callable
from contextlib import closing
from uuid import uuid4

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.postgres.driver import Connection, attempt

_LOOKS = 4


def check_sessions(ours: Connection, dial: Callable[[], Connection], name: str) -> None:
    """Raise `StoreUnavailable` behind a pooler that lends sessions out for less than a connection lasts.

    `ours` is a new connection, on which nothing was set yet: whatever is set there may be met by any other program.
    """
    # The number that a connection is told first is that of its session, unless a pooler stands between.
    if attempt(ours, _session) == ours.info.backend_pid:
        return
    with closing(dial()) as other:
        if _is_shared(ours, other):
            raise StoreUnavailable(
                f"{name} is behind a pooler that shares sessions between connections: "
                "connect directly, or through a pooler in session mode (pool_mode=session in PgBouncer)"
            )


def _is_shared(ours: Connection, other: Connection) -> bool:
    """Tell whether what is set on one connection is met on another one, or `ours` is moved to another session."""
    mark = uuid4().hex
    begun = attempt(ours, _session)
    for _ in range(_LOOKS):
        attempt(ours, lambda one: one.execute("SELECT set_config('steptrail.mark', %s, false)", (mark,)))
        met = attempt(other, lambda two: two.execute("SELECT current_setting('steptrail.mark', true)").fetchone())
        if met == (mark,) or attempt(ours, _session) != begun:
            return True
    return False


def _session(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])
