"""Finds out whether a stream that looks open still has an owner, or was abandoned by a crash."""

from steptrail.runtime.kernel.ports import EventStore


async def is_abandoned(store: EventStore, stream: str, version: int) -> bool | None:
    """Tell whether a stream is still at `version` and nobody holds its lease; None when that cannot be known."""
    # The order of the two reads matters. An owner stores its last event before it releases the lease. So if the run
    # ends between the two reads, the version has moved on, and the run is not taken for one that crashed. If a run
    # begins after both, the answer was true when the lease was read.
    is_leased = await store.is_leased(stream)
    if is_leased is None:
        return None
    return not is_leased and await store.version(stream) == version
