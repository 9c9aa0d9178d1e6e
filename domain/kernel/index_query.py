"""A question to the index of a store."""

from collections.abc import Collection, Sequence

from msgspec import Struct

DuePlace = tuple[int, str]
"""A place in the order of what is due: the instant from which a stream is due (microseconds of UTC), and its id."""
DUE_FIRST: DuePlace = (-(2**63), "")
"""The place before all that is due."""


class IndexQuery(Struct, frozen=True, kw_only=True):
    """Which streams to return, the one that began last first; all that is given must hold.

    `status`, `stop_reason`, `name`, `tenant` and `standing` are those of the row, and `waits_for` kinds of waits, of
    which one must be open, and must not be over by the instant `waits_at` (microseconds of UTC).
    `streams` are ids, `parents` ids of the streams above, `forked_from` ids of the streams whose past is shared. The
    streams began at `since` or later, and before `until` (microseconds of UTC).
    `ended_before` asks for those that have ended before that instant (microseconds of UTC) and are not due at any.
    With `erased` only streams that were erased are returned, and without it only others.
    Three fields say what an owner may go on with, and of those that are given one must hold; a stream with damage is
    left out. `due_by` asks for what is due by itself at that instant (microseconds of UTC), `moved_by` for what rests
    and waits, itself or through others that rest, for a stream that at that instant is due, or neither rests nor is
    paused, and for what was due when it was stored, by a clock that was ahead of that instant. `unless_leased` asks for
    what is being worked on, without the streams that it names, whose leases are held.
    With `roots` those that another stream began are left out.
    `left_behind` asks for those that are open although the stream that began them has ended.
    `after` is the id of the last stream of the page before, and `limit` how many to return at most. `due_after` stands
    for `after` where those that are due first are to come first.
    """

    status: str | None = None
    stop_reason: str | None = None
    name: str | None = None
    tenant: str | None = None
    standing: str | None = None
    since: int | None = None
    until: int | None = None
    waits_for: Sequence[str] | None = None
    waits_at: int = DUE_FIRST[0]
    streams: Sequence[str] | None = None
    parents: Sequence[str] | None = None
    forked_from: Sequence[str] | None = None
    due_by: int | None = None
    moved_by: int | None = None
    unless_leased: Collection[str] | None = None
    roots: bool = False
    left_behind: bool = False
    ended_before: int | None = None
    erased: bool = False
    after: str | None = None
    due_after: DuePlace | None = None
    limit: int | None = None
