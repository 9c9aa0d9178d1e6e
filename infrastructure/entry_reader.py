"""Follows the log with a fold of each stream: from any place in it, in any process, with the same results."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from steptrail.domain.errors import SessionErased
from steptrail.domain.kernel.erasure import Erased
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.newest import Newest
from steptrail.runtime.kernel.kinds import KINDS

_MOST_SESSIONS = 1_000


class StreamFold(Protocol):
    """Makes something of each event of one stream, which it is given in order."""

    @property
    def version(self) -> int: ...  # noqa: D102
    def apply(self, record: Recorded[Any], /, *, position: int) -> tuple[Any, ...]: ...  # noqa: D102


F = TypeVar("F", bound=StreamFold)


class EntryReader(Generic[F]):
    """Gives entries of the log to folds of their streams. `fold_at` makes the fold of a stream at a version.

    It may begin anywhere, and entries may be left out or come again: a stream that it does not know it reads from the
    store. It remembers the newest 1,000 streams.
    """

    def __init__(self, fold_at: Callable[[str, int], Awaitable[F | None]]) -> None:
        self._fold_at = fold_at
        self._folds = Newest[str, F](_MOST_SESSIONS)

    async def _told(self, entry: LogEntry) -> tuple[Any, ...]:
        """Return what the fold makes of an entry; nothing of a kind that is not known here, and of what was erased."""
        stream, record = entry.stream, entry.record
        fold, begins = self._folds.pop(stream, None), is_fork(stream, record)
        if isinstance(record.event, Erased):
            return ()
        if begins or fold is None or fold.version != record.version - 1:
            # What a fork begins with is another session's past, of which nothing is told here.
            try:
                fold = await self._fold_at(stream, record.version - (not begins))
            except SessionErased:  # since the entry was read
                fold = None
        if fold is None:
            return ()
        told = () if begins else fold.apply(record, position=entry.position)
        self._folds.keep(stream, fold)
        return told


def is_fork(stream: str, record: Recorded[Any]) -> bool:
    """Tell whether a record begins a stream with the past of another one."""
    kind = KINDS.of(stream)
    return kind is not None and kind.machine.forked_from(record.event) is not None
