"""Reads the lifecycle of a stored stream of any kind, as it is at any of its versions."""

from steptrail.domain.kernel.by_prefix import id_of
from steptrail.projections.kinds import PROJECTIONS, Lifecycle
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore


async def lifecycle_at(store: EventStore, stream: str, version: int) -> Lifecycle | None:
    """Return the lifecycle of a stream after its event `version`; None when its kind is not known here.

    Raises store errors.
    """
    kind, projections = KINDS.of(stream), PROJECTIONS.of(stream)
    if kind is None or projections is None:
        return None
    if version:
        state, _ = await fold_stream(kind.machine, store, stream, at=version)
    else:
        state = kind.machine.initial(id_of(stream))
    return projections.lifecycle(state)
