"""Access: the answer of `authorize`, and the tenant of a run, by which it is seen or not.

The tenant of a run is what its metadata has under the key `tenant`, or else the tenant of the run that began it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

from steptrail.domain.agent.events import SessionForked
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.events import MetadataChanged, SessionStarted
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

__all__ = ["Access", "Authorize", "access_of", "tenant_of", "visible"]

_TENANT_TYPES = (SessionStarted.TYPE, SessionForked.TYPE, MetadataChanged.TYPE)
_MOST_ABOVE = 32
"""How many runs above another one are asked for its tenant."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a caller of the inspector. `tenant` limits it to the runs of that tenant; None means all runs.

    `may_act` lets it answer questions, pause and stop; `user` is its name in the record of these.
    """

    tenant: str | None = None
    may_act: bool = False
    user: str = "user"


Authorize: TypeAlias = "Callable[[HTTPConnection], Access | Awaitable[Access | None] | None]"
"""Says what a caller may see, given the request; None for nothing at all."""


async def access_of(authorize: Authorize, connection: "HTTPConnection") -> Access | None:
    """Return what a caller may see; None for nothing, also when the answer is no `Access`."""
    answer = authorize(connection)
    found = await answer if isawaitable(answer) else answer
    return found if isinstance(found, Access) else None


async def tenant_of(store: EventStore, row: RunSummary) -> str | None:
    """Return the tenant of a run; None when neither it nor a run above it has one."""
    for _ in range(_MOST_ABOVE):
        said: JsonValue = None
        async for _, _, record in store.log(stream=row.stream, types=_TENANT_TYPES, on_corrupt=_passed):
            match record.event:
                case SessionStarted(metadata=entries) | SessionForked(metadata=entries):
                    said = entries.get("tenant", said)
                case MetadataChanged(changes=changes, removed=removed):
                    said = changes.get("tenant", None if "tenant" in removed else said)
                case _:
                    pass
        if said is not None or row.parent is None:
            return said if isinstance(said, str) else None
        above = await store.index(IndexQuery(streams=[row.parent.stream]))
        if not above:
            return None
        row = above[0]
    return None


async def visible(store: EventStore, access: Access, rows: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """Return those of the rows that a caller may see."""
    if access.tenant is None:
        return rows
    return [row for row in rows if await tenant_of(store, row) == access.tenant]


def _passed(error: Exception) -> None:
    """Pass a record that cannot be read: what cannot be told is not shown to a tenant."""
    del error
