"""The event store over PostgreSQL, and how one is opened."""

import asyncio
from contextlib import suppress

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.infrastructure.store.event_store import RecorderEventStore
from steptrail.infrastructure.store.opening import Durability
from steptrail.infrastructure.store.postgres_address import PostgresAddress
from steptrail.infrastructure.store.postgres_connections import PostgresConnections
from steptrail.infrastructure.store.postgres_driver import ServerFailure
from steptrail.infrastructure.store.postgres_errors import translate
from steptrail.infrastructure.store.postgres_leases import PostgresLeases
from steptrail.infrastructure.store.postgres_library import PostgresEventRecorder
from steptrail.infrastructure.store.postgres_schema import check_schema, initialise

__all__ = ["PostgresEventStore", "open_postgres"]

_READERS = 4
"""How many questions one store asks at once, each on a connection of its own."""

_POLL_SECONDS = 1.0


class PostgresEventStore(RecorderEventStore):
    """Implements the port `EventStore` for all processes that reach the server."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._events = PostgresEventRecorder(connections)
        super().__init__(self._events, PostgresLeases(connections), name=connections.address.name, readers=_READERS)

    async def wait_past(self, position: int, *, timeout: float) -> None:
        """Return as soon as something may stand after `position` in the log, at the latest after `timeout` seconds.

        A commit of any process is announced by the server at once; that is no promise, so the log is looked at every
        second too. Raises `StoreUnavailable` when the server cannot be asked or the store is closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        announced = asyncio.Event()

        def hear() -> None:
            # The loop may be over when the announcement comes.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(announced.set)

        self._check_usable()
        self._events.listener.add(hear)
        try:
            while True:
                announced.clear()
                if await self._ask(self._events.select_last_position) > position:
                    return
                left = deadline - loop.time()
                if left <= 0:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _POLL_SECONDS)):
                        await announced.wait()
        finally:
            self._events.listener.remove(hear)


def open_postgres(
    url: str, durability: Durability, patience: float, *, create: bool, read_only: bool
) -> PostgresEventStore:
    """Open the store at `url`, and make it when it is not there and `create` allows that."""
    address = PostgresAddress.parse(url)
    connections = PostgresConnections(address, durability=durability, patience=patience, read_only=read_only)
    try:
        is_store = connections.read(lambda connection: check_schema(connection, address.name))
        if not is_store:
            if not create or read_only:
                msg = f"there is no store in {address.name}: check the address, or run something first"
                raise StoreUnavailable(msg)
            connections.write(lambda connection: initialise(connection, address.name))
    except ServerFailure as failure:
        connections.close()
        raise translate(failure, address.name, is_writing=True) from failure
    except StoreError:
        connections.close()
        raise
    return PostgresEventStore(connections)
