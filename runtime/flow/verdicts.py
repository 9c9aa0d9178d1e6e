"""Finds verdicts on nodes in doubt in the log of a workflow, for somebody whose verdict comes second."""

from collections.abc import Callable, Sequence

from steptrail.domain.flow.events import (
    FlowEvent,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
    NodeThen,
)
from steptrail.domain.flow.task import TaskKey

VERDICTS: Sequence[str] = (
    NodeAttemptStarted.TYPE,
    NodeAttemptInterrupted.TYPE,
    NodeAttemptCompleted.TYPE,
    NodeAttemptFailed.TYPE,
)
"""The stored types of verdicts, and of what says which node they are on."""


def verdict_on(effect_id: str) -> Callable[[FlowEvent], str | None]:
    """Return what says, of one event of a log after the other, that it settles a node; None for any other event."""
    begun: dict[TaskKey, str] = {}
    parked: set[TaskKey] = set()

    def said(event: FlowEvent) -> str | None:
        match event:
            case NodeAttemptStarted():
                key = event.node, event.visit, event.item
                begun[key] = event.effect_id
                parked.discard(key)
            case NodeAttemptInterrupted(then=NodeThen.PARK):
                parked.add((event.node, event.visit, event.item))
            case NodeAttemptInterrupted() | NodeAttemptCompleted() | NodeAttemptFailed():
                key = event.node, event.visit, event.item
                return "settled" if key in parked and begun.get(key) == effect_id else None
            case _:
                pass
        return None

    return said
