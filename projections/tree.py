"""The tree of a session: every session that its tool calls ran, however deep, and what each was billed.

It adds up what the sessions themselves say, and not what was told to the ones above them, so it also holds what a call
that is still open has cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptrail.domain.agent.events import SessionStarted
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.usage import Usage
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.runs import RunsProjection
from steptrail.projections.summary import RunSummary

__all__ = ["RunTree", "TreeProjection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTree:
    """A session, or a stream of another kind, and those below it, in the order in which they began.

    `own_usage` is what its own model calls were billed over all its executions, `usage` that of the whole tree.
    """

    run: RunSummary
    own_usage: Usage
    usage: Usage
    children: tuple["RunTree", ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "RunTree"]]:
        """Yield the tree and every one below it, each before those below it, with its depth from 0."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


class TreeProjection:
    """Folds the log into the tree of one stream, by its whole id. The same record twice has no further effect.

    The log has a stream before the ones below it, so one pass in its order finds them all.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._runs = RunsProjection()
        kinds = [kind for prefix in PROJECTIONS if (kind := PROJECTIONS.of(prefix)) is not None]
        self.types: Sequence[str] = (*self._runs.types, *(name for kind in kinds for name in kind.bill.types))
        self._below: dict[str, list[str]] = {root: []}
        self._own: dict[str, Usage] = {}
        self._seen: dict[str, int] = {}

    def mark_damaged(self, error: CorruptRecord) -> None:
        """Say of a stream of the tree that a record of it cannot be read: its bill is not whole."""
        if error.stream in self._below:
            self._runs.mark_damaged(error)

    def apply(self, stream: str, record: Recorded[Event]) -> None:
        """Fold one record of a stream."""
        if record.version <= self._seen.get(stream, 0):
            return
        event = record.event
        if isinstance(event, SessionStarted) and event.parent is not None and event.parent.stream in self._below:
            self._below[event.parent.stream].append(stream)
            self._below.setdefault(stream, [])
        if stream not in self._below:
            return
        self._seen[stream] = record.version
        self._runs.apply(stream, record)
        kind = PROJECTIONS.of(stream)
        billed = None if kind is None else kind.bill.billed(event)
        if billed is not None:
            self._own[stream] = self._own.get(stream, Usage()) + billed

    def tree(self) -> RunTree | None:
        """Return the tree; None when no event of its root has been applied."""
        return self._tree(self._root) if self._root in self._runs.rows else None

    def _tree(self, stream: str) -> RunTree:
        children = tuple(self._tree(child) for child in self._below[stream])
        own = usage = self._own.get(stream, Usage())
        for child in children:
            usage = usage + child.usage
        return RunTree(run=self._runs.rows[stream], own_usage=own, usage=usage, children=children)
