"""The events of a run that may have been killed before it stored any."""

from collections.abc import Sequence
from typing import Any, TypeVar

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.errors import SessionNotFound
from steptrail.interfaces.python.handle import Handle

E = TypeVar("E", bound=Event)


async def stored_events(handle: Handle[Any, E, Any]) -> Sequence[Recorded[E]]:
    """Return the events of a run; none of one that is not there."""
    try:
        return await handle.events()
    except SessionNotFound:
        return ()
