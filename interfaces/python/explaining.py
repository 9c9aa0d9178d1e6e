"""Why a stored run stopped: what is read for an explanation, and in which order."""

from collections.abc import Sequence
from typing import Any

from steptrail.domain.errors import ConfigurationError, CorruptRecord, SessionNotFound
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.python.naming import name_of
from steptrail.projections.kinds import PROJECTIONS, Explanation
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.history import history
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["explained"]


async def explained(store: EventStore, stream: str, *, now: int, execution: str | int | None = None) -> Explanation:
    """Explain the newest execution of a stream, or the one of that id or number; see `Handle.why`."""
    with collector_off():
        # The records are gone when it returns: the collector, once it is on again, does not walk through them.
        return await _explained(store, stream, now=now, execution=execution)


async def _explained(store: EventStore, stream: str, *, now: int, execution: str | int | None) -> Explanation:
    kind, projections = KINDS.of(stream), PROJECTIONS.of(stream)
    if kind is None or projections is None:
        raise ConfigurationError(f"nothing here can explain streams like {stream!r}")
    while True:
        records, damage = await _readable(kind.machine, store, stream)
        if not records:
            raise SessionNotFound(name_of(stream))
        owned = await store.is_leased(stream)
        # Who lets go of the lease has stored its last event before: a run that has ended meanwhile is no crash.
        if owned is not False or damage is not None or await store.version(stream) == records[-1].version:
            break
    return projections.explain(id_of(stream), records, now=now, owned=owned, execution=execution, damage=damage)


async def _readable(
    machine: Machine[Any, Any, Any, Any], store: EventStore, stream: str
) -> tuple[Sequence[Recorded[Any]], str | None]:
    """Return the events up to the first that cannot be read, and what is wrong with that one."""
    try:
        return await history(machine, store, stream), None
    except CorruptRecord as error:
        # What comes before the damage still says something.
        if error.stream != stream or error.version < 2:
            raise
        return await history(machine, store, stream, at=error.version - 1), str(error)
