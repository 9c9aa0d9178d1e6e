"""The PostgreSQL server to measure on: one that is named, or one that is started for the run and ended after it."""

import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager

from benchmarks.postgres_place import PostgresSite
from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.opening import open_store
from tests.harness.postgres_server import PostgresServer

VARIABLE = "STEPTRAIL_BENCH_POSTGRES"
"""The environment variable with the address of a server, whose user may create databases."""


class NoServer(Exception):
    """There is no PostgreSQL to measure on; says why."""


@asynccontextmanager
async def open_postgres() -> AsyncGenerator[PostgresSite, None]:
    """Yield a site on a server. Raises `NoServer` when there is none, no driver for it, or no store of ours on it."""
    with ExitStack() as stack:
        try:
            site = PostgresSite(os.environ.get(VARIABLE) or _started(stack))
            place = site.fresh()
            await open_store(place.url).close()
            place.remove()
        except (ImportError, ConfigurationError) as error:
            msg = f"{error} (a server can be named in {VARIABLE})"
            raise NoServer(msg) from error
        yield site


def _started(stack: ExitStack) -> str:
    return stack.enter_context(PostgresServer(settings=())).url("postgres")
