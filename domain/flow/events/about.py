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
