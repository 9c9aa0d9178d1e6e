"""Why a stored run stopped: what is read for an explanation, and in which order."""

from steptrail.domain.errors import ConfigurationError, CorruptRecord, SessionNotFound
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.interfaces.python.naming import name_of
from steptrail.projections.kinds import PROJECTIONS, Explainer, Explanation
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.history import LARGE_PAGE, pages
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["explained"]


async def explained(store: EventStore, stream: str, *, now: int, execution: str | int | None = None) -> Explanation:
    """Explain the newest execution of a stream, or the one of that id or number; see `Handle.why`."""
    kind, projections = KINDS.of(stream), PROJECTIONS.of(stream)
    if kind is None or projections is None:
        raise ConfigurationError(f"nothing here can explain streams like {stream!r}")

    async def told(*, at: int | None = None) -> Explainer:
        explainer = projections.explain(id_of(stream), execution)
        with collector_off():
            async for records, _ in pages(kind.machine, store, stream, at=at, most=LARGE_PAGE):
                explainer.add(records)
        return explainer

    while True:
        damage = None
        try:
            explainer = await told()
        except CorruptRecord as error:
            # What comes before the damage still says something.
            if error.stream != stream or error.version < 2:
                raise
            explainer, damage = await told(at=error.version - 1), str(error)
        if not explainer.version:
            raise SessionNotFound(name_of(stream))
        owned = await store.is_leased(stream)
        # Who lets go of the lease has stored its last event before: a run that has ended meanwhile is no crash.
        if owned is not False or damage is not None or await store.version(stream) == explainer.version:
            return explainer.explanation(now=now, owned=owned, damage=damage)
