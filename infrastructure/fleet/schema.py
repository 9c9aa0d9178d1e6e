"""The schema of an engine in PostgreSQL: the tables of procrastinate, and what our workers say of themselves."""

from typing import Any

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.extras import from_fleet

FLEET_SCHEMA = "steptrail_fleet"
_FORM = "steptrail fleet 1, procrastinate 3.10"
"""The comment of the schema. A release of procrastinate with other tables needs another form."""
_LOCK = "SELECT pg_advisory_xact_lock(1400139860, 4)"
"""The first number is that of the store's own lock, which has 2 behind it, and that of the read models, which has 3."""
_SEEN = """
SELECT obj_description(oid, 'pg_namespace'),
       EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_namespace.oid)
FROM pg_namespace WHERE nspname = %s
"""


async def make_schema(connection: Any, name: str) -> None:
    """Make the schema, in one transaction, unless it is there. Raises `StoreUnavailable` for one that is not ours.

    `connection` is one of psycopg, and `name` what messages call the database. Processes that do this at once wait for
    each other.
    """
    async with connection.transaction():
        # Without the lock where it is there already: who only adds wakes need not wait.
        if await _is_made(connection, name):
            return
        await connection.execute(_LOCK)
        if await _is_made(connection, name):
            return
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {FLEET_SCHEMA}")
        await connection.execute(f"SET LOCAL search_path TO {FLEET_SCHEMA}")
        await connection.execute(from_fleet("procrastinate.schema").SchemaManager.get_schema())
        await connection.execute(
            "CREATE TABLE fleet_workers (worker text PRIMARY KEY, seen timestamptz NOT NULL, report text NOT NULL)"
        )
        await connection.execute(f"COMMENT ON SCHEMA {FLEET_SCHEMA} IS '{_FORM}'")


async def _is_made(connection: Any, name: str) -> bool:
    found = await (await connection.execute(_SEEN, (FLEET_SCHEMA,))).fetchone()
    if found is None or found == (None, False):
        return False
    if found[0] == _FORM:
        return True
    said = f"is of the form {found[0]!r}" if found[0] else "is not one of an engine"
    msg = f"the schema {FLEET_SCHEMA} in {name} {said}, and this version works with {_FORM!r}"
    raise StoreUnavailable(f"{msg}: end all workers and drop it, for nothing is lost with it, or give another database")
