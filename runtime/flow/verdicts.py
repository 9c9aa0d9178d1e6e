"""Finds verdicts on nodes in doubt in the log of a workflow, for somebody whose verdict comes second."""

from collections.abc import Callable, Sequence

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.events.attempts import NodeThen
from steptrail.domain.flow.task import TaskKey

VERDICTS: Sequence[str] = (
    stored.NodeAttemptStarted.TYPE,
    stored.NodeAttemptInterrupted.TYPE,
    stored.NodeAttemptCompleted.TYPE,
    stored.NodeAttemptFailed.TYPE,
)
"""The stored types of verdicts, and of what says which node they are on."""


def verdict_on(effect_id: str) -> Callable[[stored.FlowEvent], str | None]:
    """Return what says, of one event of a log after the other, that it settles a node; None for any other event.

    The word is empty for an event that asks for another verdict on the node.
    """
    begun: dict[TaskKey, str] = {}

    def said(event: stored.FlowEvent) -> str | None:
        match event:
            case stored.NodeAttemptStarted():
                begun[event.key] = event.effect_id
                return None
            case stored.NodeAttemptInterrupted() | stored.NodeAttemptCompleted() | stored.NodeAttemptFailed():
                if begun.get(event.key) != effect_id:
                    return None
                # One that ran again, and is in doubt anew, asks for another verdict.
                asks = isinstance(event, stored.NodeAttemptInterrupted) and event.then is NodeThen.PARK
                return "settled" if event.settled_by is not None else "" if asks else None
            case _:
                return None

    return said
