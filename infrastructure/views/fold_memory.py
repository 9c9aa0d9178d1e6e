"""The folds of the streams that a projection has seen lately, in memory only."""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Generic, TypeVar

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection

F = TypeVar("F")

_MARKS = 1 << 22
"""So many streams are told apart, each by its hash: one that shares its mark is made again, though it is not needed."""


class _Forgotten(Enum):
    """Stands for a fold that is not here: None may be one, of a projection that remembers nothing."""

    IS = auto()


class FoldMemory(Generic[F]):
    """Folds entries, and remembers the folds of the newest streams. Those that are missing are made again."""

    def __init__(self, projection: Projection[F], *, most: int = 5_000) -> None:
        self._projection, self._most = projection, most
        self._folds: dict[str, F] = {}
        # A set that keeps the order of the log, so that a batch writes its rows in the same order each time.
        self._of_batch: dict[str, None] = {}
        self._marks: bytearray | None = None

    def begin_log(self) -> None:
        """Remember which streams are folded from now on, at the beginning of the log: no other one has a past.

        Otherwise each would be made again whose first event is of a type that the projection does not read.
        """
        self._marks = bytearray(_MARKS)

    def may_know(self, stream: str) -> bool:
        """Whether something of a stream may have been folded."""
        return self._marks is None or bool(self._marks[hash(stream) % _MARKS])

    def fold(self, entries: Iterable[LogEntry], changes: Changes) -> LogEntry | None:
        """Fold entries, and return the first that was not folded; None when all were.

        That is one whose fold is missing: call `refold` for its stream, and go on with it. Raises what the projection
        raises; then the folds are of no use any more.
        """
        apply, begin, folds, forgotten = self._projection.apply, self._projection.begin, self._folds, _Forgotten.IS
        newest: str | None = None
        marks = self._marks
        fold: F | _Forgotten = forgotten
        for entry in entries:
            if (stream := entry.stream) != newest:
                # It is put in again below, behind those that were used before it.
                newest, fold = stream, folds.pop(stream, forgotten)
                self._of_batch[stream] = None
            if fold is forgotten:
                mark = hash(stream) % _MARKS
                if entry.record.version > 1 and (marks is None or marks[mark]):
                    return entry
                fold = begin(stream)
                if marks is not None:
                    marks[mark] = 1
            after = apply(fold, entry, changes)
            folds[stream] = fold = begin(stream) if after is None else after
        return None

    def end_batch(self, changes: Changes) -> None:
        """Have the projection write the rows that are made of the folds of all streams that were folded since the last.

        Raises what the projection raises.
        """
        for stream in self._of_batch:
            self._projection.end_batch(self._folds[stream], changes)
        self._of_batch.clear()

    def refold(self, stream: str, entries: Iterable[LogEntry]) -> None:
        """Make the missing fold of a stream again from its first entries, or go on with those that come after them.

        What that writes is thrown away.
        """
        fold = self._folds.pop(stream, _Forgotten.IS)
        if fold is _Forgotten.IS:
            fold = self._projection.begin(stream)
        for entry in entries:
            after = self._projection.apply(fold, entry, Changes())
            fold = self._projection.begin(stream) if after is None else after
        self._folds[stream] = fold

    def trim(self) -> None:
        """Forget the folds that were not used for the longest time, if there are too many."""
        for stream in list(self._folds)[: max(0, len(self._folds) - self._most)]:
            del self._folds[stream]

    def forget(self, stream: str | None = None) -> None:
        """Forget all folds, or that of a stream which is all of the batch."""
        if stream is None:
            self._folds.clear()
        else:
            self._folds.pop(stream, None)
        self._of_batch.clear()
