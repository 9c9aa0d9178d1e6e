"""Whether anybody runs a session that looks open: the difference between one that goes on and one that crashed."""

from steptrail.runtime.kernel.ports import EventStore

__all__ = ["is_left_alone"]


async def is_left_alone(store: EventStore, stream: str, version: int) -> bool | None:
    """Tell whether a stream still stands at `version` and nobody holds its lease; None when that cannot be told.

    The lease is looked at first. Who lets go of it has stored its last event before, so a run that ends between the
    two looks has moved the stream on, and is not taken for one that crashed. One that begins after both is no mistake:
    at the first look nobody had it.
    """
    is_leased = await store.is_leased(stream)
    if is_leased is None:
        return None
    return not is_leased and await store.version(stream) == version
