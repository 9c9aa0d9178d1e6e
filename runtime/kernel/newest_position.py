"""How far the log of a store has come, also where nobody may follow it: on a standby."""

from steptrail.domain.errors import StoreIsStandby
from steptrail.runtime.kernel.ports import EventStore


async def newest_position(store: EventStore) -> int:
    """Return the position of the newest record; 0 when there is none.

    It says that the log has grown, and by how much. On a standby records may appear later before it, so who must not
    miss one asks for `last_position`, which a standby refuses.
    """
    try:
        return await store.last_position()
    except StoreIsStandby as standby:
        return standby.newest
