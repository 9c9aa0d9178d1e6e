"""Finds in the log of a session what settled a call in doubt, or answered an external one, for who comes second."""

from collections.abc import Callable, Sequence

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.tools import Then

VERDICTS: Sequence[str] = (
    stored.ToolExecutionStarted.TYPE,
    stored.ToolCallDeferred.TYPE,
    stored.ToolExecutionCompleted.TYPE,
    stored.ToolExecutionFailed.TYPE,
    stored.ToolExecutionInterrupted.TYPE,
    stored.WaitStarted.TYPE,
    stored.WaitEnded.TYPE,
)
"""The stored types of verdicts, and of what says which call they are on."""


def verdict_on(effect_id: str) -> Callable[[stored.AgentEvent], str | None]:
    """Return what says, of one event of a log after the other, that it settles a call; None for any other event.

    The word is empty for an event that asks for another verdict on the call.
    """
    begun: dict[int, str] = {}
    asked: int | None = None

    def said(event: stored.AgentEvent) -> str | None:
        nonlocal asked
        match event:
            case stored.ToolExecutionStarted(position=position) | stored.ToolCallDeferred(position=position):
                begun[position] = event.effect_id
            case stored.WaitStarted(kind="unknown_outcome", position=position):
                asked = position
            case stored.ToolExecutionInterrupted(then=Then.PARK) if begun.get(event.position) == effect_id:
                return ""  # it ran again, and is in doubt anew
            case stored.ToolExecutionCompleted(settled_by=str()) | stored.ToolExecutionFailed(settled_by=str()):
                return "settled" if begun.get(event.position) == effect_id else None
            case stored.WaitEnded(reason="rerun" | "tell"):
                return "settled" if asked is not None and begun.get(asked) == effect_id else None
            case _:
                pass
        return None

    return said
