"""The bases of the events about a node: they say which visit of it, and which item of a map, the event is about."""

from steptrail.domain.base import Count, Positive
from steptrail.domain.kernel.event import Event


class VisitEvent(Event, frozen=True, kw_only=True):
    """An event about a visit of a node. `visit` counts them for each node, from 1."""

    STATE = frozenset({"node"})
    node: str
    visit: Positive


class TaskEvent(VisitEvent, frozen=True, kw_only=True):
    """An event about a visit as a whole, or about one item of a map, whose index is `item`."""

    item: Count | None = None

    @property
    def key(self) -> tuple[str, int, int | None]:
        """The key of its task, which tells it from all others of the execution."""
        return self.node, self.visit, self.item
