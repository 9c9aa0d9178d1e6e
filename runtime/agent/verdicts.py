"""Finds verdicts on calls in doubt in the log of a session, for somebody whose verdict comes second."""

from collections.abc import Callable, Sequence

from steptrail.domain.agent.events import (
    AgentEvent,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionStarted,
    WaitEnded,
    WaitStarted,
)

VERDICTS: Sequence[str] = (
    ToolExecutionStarted.TYPE,
    ToolExecutionCompleted.TYPE,
    ToolExecutionFailed.TYPE,
    WaitStarted.TYPE,
    WaitEnded.TYPE,
)
"""The stored types of verdicts, and of what says which call they are on."""


def verdict_on(effect_id: str) -> Callable[[AgentEvent], str | None]:
    """Return what says, of one event of a log after the other, that it settles a call; None for any other event."""
    begun: dict[int, str] = {}
    asked: int | None = None

    def said(event: AgentEvent) -> str | None:
        nonlocal asked
        match event:
            case ToolExecutionStarted(position=position):
                begun[position] = event.effect_id
            case WaitStarted(kind="unknown_outcome", position=position):
                asked = position
            case ToolExecutionCompleted(settled_by=str()) | ToolExecutionFailed(settled_by=str()):
                return "settled" if begun.get(event.position) == effect_id else None
            case WaitEnded(reason="rerun" | "tell"):
                return "settled" if asked is not None and begun.get(asked) == effect_id else None
            case _:
                pass
        return None

    return said
