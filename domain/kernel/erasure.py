"""The erasure of a stream: the event that stands in the place of all others, and what is remembered of it."""

from steptrail.domain.base import Count, Value
from steptrail.domain.kernel.event import Event, EventKind

ERASED = "erased"
"""The status of an erased stream in the index. No list shows it."""


class Erased(Event, frozen=True, kw_only=True):
    """All events of the stream were erased. This is the only one that it has, and the last.

    It stands behind the end of the log of then, so that no position is used twice. A follower of the log meets it in
    its turn, and forgets what it knows of the stream. The head of its commit names who asked for it.
    """

    TYPE = "stream.erased.v1"
    KIND = EventKind.OUTSIDE


class Erasure(Value, frozen=True, kw_only=True):
    """The memory of an erased stream. `at` is in microseconds of UTC.

    `position` is the place of its `Erased` event in the log, 0 for one that was only asked about. `events` is how many
    were erased, and `digest` that of the last of their commits, in hexadecimal.
    """

    stream: str
    at: int
    by: str
    reason: str
    events: Count
    digest: str
    position: Count = 0


class ErasureReport(Value, frozen=True, kw_only=True):
    """The streams that were erased, or would be in a dry run, and those that were kept with the reason why.

    `remains` says where bytes of them may still lie, and what removes these; None when there are none.
    """

    erased: tuple[Erasure, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    is_dry_run: bool = False
    remains: str | None = None
