"""The decision of a node that chooses which nodes come next."""

from steptrail.domain.base import Value


class Route(Value, frozen=True, kw_only=True):
    """The decision of a node that chooses: the ids of the next nodes, and why."""

    CONTENT = frozenset({"reason"})
    STATE = frozenset({"targets"})
    targets: tuple[str, ...]
    reason: str
    confidence: float | None = None
