"""How an event store over PostgreSQL is opened: at an address that every process can reach."""

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.library.postgres import PostgresEventRecorder
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import ServerFailure
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.infrastructure.store.postgres.leases import PostgresLeases
from steptrail.infrastructure.store.postgres.live_bus import PostgresLiveBus
from steptrail.infrastructure.store.postgres.schema import check_schema, initialise


def open_postgres(
    url: str, durability: Durability, patience: float, *, create: bool, read_only: bool
) -> RecorderEventStore:
    """Open the store at `url`. Makes it when it is not there and `create` allows that; `read_only` never does."""
    address = PostgresAddress.parse(url)
    name = address.name
    connections = PostgresConnections(address, durability=durability, patience=patience, read_only=read_only)
    try:
        version = connections.read(lambda connection: check_schema(connection, name, to_write=not read_only))
        if not version and (read_only or not create):
            raise StoreUnavailable(f"there is no store in {name}: check the address, or run something first")
        if not version:
            connections.write(lambda connection: initialise(connection, name))
    except ServerFailure as failure:
        connections.close()
        raise translate(failure, name, is_writing=True) from failure
    except StoreError:
        connections.close()
        raise
    return RecorderEventStore(
        PostgresEventRecorder(connections),
        PostgresLeases(connections),
        name=name,
        readers=address.readers,
        quick=0,
        live_bus=PostgresLiveBus(connections),
    )
