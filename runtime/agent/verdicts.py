"""Finds verdicts on calls in doubt in the log of a session, for somebody whose verdict comes second."""

from collections.abc import Callable, Sequence

from steptrail.domain.agent import events as stored

VERDICTS: Sequence[str] = (
    stored.ToolExecutionStarted.TYPE,
    stored.ToolExecutionCompleted.TYPE,
    stored.ToolExecutionFailed.TYPE,
    stored.WaitStarted.TYPE,
    stored.WaitEnded.TYPE,
)
"""The stored types of verdicts, and of what says which call they are on."""


def verdict_on(effect_id: str) -> Callable[[stored.AgentEvent], str | None]:
    """Return what says, of one event of a log after the other, that it settles a call; None for any other event."""
    begun: dict[int, str] = {}
    asked: int | None = None

    def said(event: stored.AgentEvent) -> str | None:
        nonlocal asked
        match event:
            case stored.ToolExecutionStarted(position=position):
                begun[position] = event.effect_id
            case stored.WaitStarted(kind="unknown_outcome", position=position):
                asked = position
            case stored.ToolExecutionCompleted(settled_by=str()) | stored.ToolExecutionFailed(settled_by=str()):
                return "settled" if begun.get(event.position) == effect_id else None
            case stored.WaitEnded(reason="rerun" | "tell"):
                return "settled" if asked is not None and begun.get(asked) == effect_id else None
            case _:
                pass
        return None

    return said
