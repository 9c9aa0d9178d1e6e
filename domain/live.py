"""Live updates of a run between two events: text while the model writes it, and the progress of tools.

Live updates are not stored. A watcher that misses one loses no content, because the event after it holds the whole
text.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from steptrail.domain.json_value import JsonValue

__all__ = ["DeltaKind", "LiveUpdate", "OutputPartial", "ReplyDelta", "ToolProgress", "UpdatesLost"]

DeltaKind = Literal["text", "reasoning"]
"""The kind of text that is being written: the answer, or the reasoning before it. Tool calls are not shown in pieces:
they come with the stored reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDelta:
    """The next piece of a reply that is being written. The last piece is `is_final` and empty.

    The `inference.completed` of the same step holds the whole reply. A reply that breaks off ends with an
    `inference.failed` or `inference.interrupted`; then the pieces that were shown must be thrown away. `step` and
    `attempt` distinguish the pieces of a new try.
    """

    session_id: str
    execution_id: str
    step: int
    attempt: int
    kind: DeltaKind = "text"
    text: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPartial:
    """An answer in a type, as far as it is written. Nothing of it is validated, and all of it may still change.

    `partial` replaces the one before. `step` and `attempt` distinguish the answers of a new try. It comes beside the
    pieces of the text, and not in `OutputMode.TOOL`, because the arguments of a call do not come in pieces. Followers
    in other processes get only the text.
    """

    session_id: str
    execution_id: str
    step: int
    attempt: int
    partial: JsonValue
    kind: Literal["output"] = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """The progress of a running call, as its tool reports it. `done` and `total` are in a unit of the tool's own."""

    session_id: str
    execution_id: str
    step: int
    position: int
    tool: str
    call_id: str
    message: str = ""
    done: float | None = None
    total: float | None = None


LiveUpdate: TypeAlias = ReplyDelta | OutputPartial | ToolProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesLost:
    """Stands for `count` live updates that were dropped, because a follower was too slow.

    The text of an unfinished reply may have a gap now. The event that follows holds the whole text.
    """

    session_id: str
    count: int
