"""Selects the events of some types, also those of them that a newer version of Steptrail has stored under another name.

They cannot be read here, and who asks for a type is to be told so: passed over, they would be missing from what is made
of the log, and nobody would know.
"""

from collections.abc import Sequence

from steptrail.infrastructure.store.core.codec import stored_names
from steptrail.infrastructure.store.core.recorder import LogRow, Recorder


class LogOfTypes:
    """The log of one store, for threads. Remembers which types there were."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._there = frozenset[str]()

    def select(self, after: int, limit: int, types: Sequence[str], stream: str | None, *, heads: bool) -> list[LogRow]:
        """Return the rows that `Recorder.select_log` returns; all types without any."""
        if not types:
            return self._recorder.select_log(after, limit, (), stream, heads=heads)
        while True:
            known = self._there
            rows = self._recorder.select_log(after, limit, stored_names(types, known), stream, heads=heads)
            # Asked behind the rows, so that they can hold no type that is not among these.
            there = frozenset(self._recorder.select_types())
            if there == known:
                return rows
            self._there = there
