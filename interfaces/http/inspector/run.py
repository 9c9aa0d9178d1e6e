"""One run as its page shows it: read in parts of known size, never the whole log."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access, visible
from steptrail.interfaces.http.inspector.events import Chunk, chunk_of
from steptrail.interfaces.http.inspector.lists import runs_below
from steptrail.interfaces.http.inspector.masking import Masking
from steptrail.interfaces.http.inspector.told import Told, told
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.lists import listed_runs

__all__ = ["RunView", "read_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The contents of the page. `told` is None for a run that cannot be read; `damage` says why.

    `above` is the run that began it, if the caller may see it, and `below` are those that it began, with their depth.
    """

    row: RunSummary
    told: Told | None
    damage: str | None
    chunk: Chunk
    above: RunSummary | None
    below: Sequence[tuple[int, RunSummary]]


async def read_run(
    trail: Steptrail,
    access: Access,
    row: RunSummary,
    masking: Masking,
    *,
    store: str | None,
    execution: int | None,
    chosen: int | None,
) -> RunView:
    """Read what the page of a run shows, of its newest execution or of that number.

    Raises `ConfigurationError` when there is no such execution.
    """
    head, damage = None, None
    try:
        explained = await trail.handle(name_of(row.stream)).why(execution=execution)
        head = told(row.stream, explained, masking, store)
        damage = explained.damage
    except CorruptRecord as error:
        damage = str(error)
    count = await trail.store.version(row.stream)
    return RunView(
        row=row,
        told=head,
        damage=damage,
        chunk=await chunk_of(trail.store, row.stream, masking, count=count, chosen=chosen),
        above=await _above(trail, access, row),
        below=await runs_below(trail, access, row.stream),
    )


async def _above(trail: Steptrail, access: Access, row: RunSummary) -> RunSummary | None:
    if row.parent is None:
        return None
    found = await visible(trail.store, access, await listed_runs(trail.store, IndexQuery(streams=[row.parent.stream])))
    return found[0] if found else None
