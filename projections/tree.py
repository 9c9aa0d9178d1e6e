"""The tree of a session: every session that its tool calls ran, however deep, and what each was billed.

It adds up what the sessions themselves say, and not what was told to the ones above them, so it also holds what a call
that is still open has cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptrail.domain.agent.events import InferenceCompleted, SessionStarted, UsageRecorded
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.usage import Usage
from steptrail.projections.runs import RunsProjection, RunSummary

__all__ = ["RunTree", "TreeProjection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTree:
    """A session and those below it, in the order in which they began.

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
    """Folds the log into the tree of one session. Applying the same record twice changes nothing.

    The log has a session before the ones below it, so one pass in its order finds them all.
    """

    types: Sequence[str] = (*RunsProjection.types, InferenceCompleted.TYPE, UsageRecorded.TYPE)

    def __init__(self, root: str) -> None:
        self._root = root
        self._runs = RunsProjection()
        self._below: dict[str, list[str]] = {root: []}
        self._own: dict[str, Usage] = {}
        self._seen: dict[str, int] = {}

    def mark_damaged(self, error: CorruptRecord) -> None:
        """Say of a session of the tree that a record of it cannot be read: its bill is not whole."""
        if error.stream.partition(":")[2] in self._below:
            self._runs.mark_damaged(error)

    def apply(self, agent_id: str, record: Recorded[Event]) -> None:
        """Fold one record of a session."""
        if record.version <= self._seen.get(agent_id, 0):
            return
        event = record.event
        if isinstance(event, SessionStarted) and event.parent is not None and event.parent.session in self._below:
            self._below[event.parent.session].append(agent_id)
            self._below.setdefault(agent_id, [])
        if agent_id not in self._below:
            return
        self._seen[agent_id] = record.version
        self._runs.apply(agent_id, record)
        if isinstance(event, InferenceCompleted):
            self._own[agent_id] = self._own.get(agent_id, Usage()) + event.reply.usage
        elif isinstance(event, UsageRecorded):
            self._own[agent_id] = self._own.get(agent_id, Usage()) + event.usage

    def tree(self) -> RunTree | None:
        """Return the tree; None when no event of its root has been applied."""
        return self._tree(self._root) if self._root in self._runs.rows else None

    def _tree(self, agent_id: str) -> RunTree:
        children = tuple(self._tree(child) for child in self._below[agent_id])
        own = usage = self._own.get(agent_id, Usage())
        for child in children:
            usage = usage + child.usage
        return RunTree(run=self._runs.rows[agent_id], own_usage=own, usage=usage, children=children)
