"""A question to the index of a store."""

from collections.abc import Sequence

from msgspec import Struct

__all__ = ["IndexQuery"]


class IndexQuery(Struct, frozen=True, kw_only=True):
    """Which streams to return, the one that began last first; all that is given must hold.

    `status`, `stop_reason`, `name` and `standing` are those of the row, and `waits_for` kinds of waits, of which one
    must be open.
    `streams` are ids, `parents` ids of the streams above, `forked_from` ids of the streams whose past is shared. The
    streams began at `since` or later, and before `until` (microseconds of UTC).
    `ended_before` asks for those that have ended before that instant (microseconds of UTC) and have nothing to do.
    With `erased` only streams that were erased are returned, and without it only others.
    `due_by` asks for all that may be due at that instant (microseconds of UTC): what is due by itself, what is being
    worked on and may have crashed, and what waits for another stream. `after` is the id of the last stream of the page
    before, and `limit` how many to return at most.
    """

    status: str | None = None
    stop_reason: str | None = None
    name: str | None = None
    standing: str | None = None
    since: int | None = None
    until: int | None = None
    waits_for: Sequence[str] | None = None
    streams: Sequence[str] | None = None
    parents: Sequence[str] | None = None
    forked_from: Sequence[str] | None = None
    due_by: int | None = None
    ended_before: int | None = None
    erased: bool = False
    after: str | None = None
    limit: int | None = None
