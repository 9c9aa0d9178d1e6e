"""The tenant of a run: what its metadata has under the key `tenant`, or else the tenant of the run that began it."""

from steptrail.domain.agent.events import SessionForked
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.events import MetadataChanged, SessionStarted
from steptrail.domain.shared.summary import RunSummary
from steptrail.projections.runs_view.tags import tenant_text
from steptrail.runtime.kernel.ports import EventStore

_TENANT_TYPES = (SessionStarted.TYPE, SessionForked.TYPE, MetadataChanged.TYPE)
_MOST_ABOVE = 32
"""How many runs above another one are asked for its tenant."""


async def tenant_of(store: EventStore, row: RunSummary) -> str | None:
    """Return the tenant of a run; None when neither it nor a run above it has one."""
    for _ in range(_MOST_ABOVE):
        said: JsonValue = None
        # What cannot be read says nothing: a run whose tenant cannot be told is shown to no tenant.
        async for _, _, record in store.log(stream=row.stream, types=_TENANT_TYPES, on_corrupt=lambda _: None):
            match record.event:
                case SessionStarted(metadata=entries) | SessionForked(metadata=entries):
                    said = entries.get("tenant", said)
                case MetadataChanged(changes=changes, removed=removed):
                    said = changes.get("tenant", None if "tenant" in removed else said)
                case _:
                    pass
        if said is not None or row.parent is None:
            return tenant_text(said)
        above = await store.index(IndexQuery(streams=[row.parent.stream]))
        if not above:
            return None
        row = above[0]
    return None
