"""Live updates of a run, between two events: text as the model writes it, and how far a tool has come.

Live updates are not stored. A watcher that missed one has lost no content: the event that follows holds the whole.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["DeltaKind", "LiveUpdate", "ReplyDelta", "ToolProgress", "UpdatesLost"]

DeltaKind = Literal["text", "reasoning"]
"""The kind of text that is being written: the answer, or the thinking before it. Tool calls come whole, with the stored
reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDelta:
    """More of a reply that is being written, in the order of the writing; the last one is `is_final` and empty.

    The reply is superseded by the `inference.completed` of the same step. A reply that breaks off is ended by an
    `inference.failed` or `inference.interrupted`, and what was shown of it is to be thrown away: `attempt` and `step`
    tell a new try from it.
    """

    session_id: str
    execution_id: str
    step: int
    attempt: int
    kind: DeltaKind = "text"
    text: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """A tool's report on a call that is still running. `done` of `total` is in a unit of its own."""

    session_id: str
    execution_id: str
    step: int
    position: int
    tool: str
    call_id: str
    message: str = ""
    done: float | None = None
    total: float | None = None


LiveUpdate: TypeAlias = ReplyDelta | ToolProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesLost:
    """In the place of `count` live updates, or pieces of text, that a follower was too slow for.

    Text that was shown of an unfinished reply may have a hole now; the event that follows holds the whole.
    """

    session_id: str
    count: int
