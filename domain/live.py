"""Live updates of a run between two events: text while the model writes it, and the progress of tools.

Live updates are not stored. A watcher that misses one loses no content, because the event after it holds the whole
text.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from steptrail.domain.json_value import JsonValue

DeltaKind = Literal["text", "reasoning"]
"""The kind of text that is being written: the answer, or the reasoning before it. Tool calls are not shown in pieces:
they come with the stored reply."""

Place: TypeAlias = tuple[str, int, int | None] | tuple[()]
"""Where in a run a model writes: the node, its visit and its item. A session of an agent has one place, which is empty.

At one place one reply is written at a time. The event that ends it supersedes all updates of its place before it.
"""


class StepReply(msgspec.Struct, frozen=True, tag="step"):
    """Identifies a reply within the session of an agent."""

    execution_id: str
    step: int
    attempt: int

    @property
    def place(self) -> Place:
        """The place in the run."""
        return ()


class NodeReply(msgspec.Struct, frozen=True, tag="node"):
    """Identifies a reply within the run of a workflow."""

    execution_id: str
    node: str
    visit: int
    item: int | None
    attempt: int

    @property
    def place(self) -> Place:
        """The place in the run."""
        return self.node, self.visit, self.item


ReplyKey: TypeAlias = StepReply | NodeReply
"""Identifies a reply within its stream."""


class _OfStep(Struct, frozen=True, kw_only=True):
    """An update of a step in the session of an agent."""

    session_id: str
    execution_id: str
    step: int

    @property
    def place(self) -> Place:
        """The place in the run."""
        return ()


class _OfTry(Struct, frozen=True, kw_only=True):
    """An update of a try of a node in the run of a workflow."""

    session_id: str
    execution_id: str
    node: str
    visit: int
    item: int | None = None
    attempt: int

    @property
    def place(self) -> Place:
        """The place in the run."""
        return self.node, self.visit, self.item


class ReplyDelta(_OfStep, frozen=True, kw_only=True):
    """The next piece of a reply that is being written. The last piece is `is_final` and empty.

    The `inference.completed` of the same step holds the whole reply. A reply that breaks off ends with an
    `inference.failed` or `inference.interrupted`; then the pieces that were shown must be thrown away. `step` and
    `attempt` distinguish the pieces of a new try.
    """

    attempt: int
    kind: DeltaKind = "text"
    text: str = ""
    is_final: bool = False

    @property
    def reply(self) -> StepReply:
        """The reply that the piece belongs to."""
        return StepReply(self.execution_id, self.step, self.attempt)


class OutputPartial(_OfStep, frozen=True, kw_only=True):
    """An answer in a type, as far as it is written. Nothing of it is validated, and all of it may still change.

    `partial` replaces the one before. `step` and `attempt` distinguish the answers of a new try. It comes beside the
    pieces of the text, and not in `OutputMode.TOOL`, because the arguments of a call do not come in pieces. Followers
    in other processes get only the text.
    """

    attempt: int
    partial: JsonValue
    kind: Literal["output"] = "output"


class ToolProgress(_OfStep, frozen=True, kw_only=True):
    """The progress of a running call, as its tool reports it. `done` and `total` are in a unit of the tool's own."""

    position: int
    tool: str
    call_id: str
    message: str = ""
    done: float | None = None
    total: float | None = None


class NodeDelta(_OfTry, frozen=True, kw_only=True):
    """The next piece of a reply that is written for a node of a workflow. The last piece is `is_final` and empty.

    `session_id` is the id of the run, without `flow:`. `visit` and `attempt` count from 1, `item` is the index of the
    item of a map. Several nodes may write at once. The `node.attempt.completed` of the same try holds what became of
    the reply. When the try ends in another way, the pieces that were shown must be thrown away.
    """

    kind: DeltaKind = "text"
    text: str = ""
    is_final: bool = False

    @property
    def reply(self) -> NodeReply:
        """The reply that the piece belongs to."""
        return NodeReply(self.execution_id, self.node, self.visit, self.item, self.attempt)


class NodeProgress(_OfTry, frozen=True, kw_only=True):
    """The progress of a try of a node, as its tool or function reports it. `done` and `total` are in a unit of its own.

    `session_id` is the id of the run, without `flow:`; the other numbers are those of `NodeDelta`.
    """

    message: str = ""
    done: float | None = None
    total: float | None = None


TextDelta: TypeAlias = ReplyDelta | NodeDelta
"""A piece of a reply."""


def piece_of(
    reply: ReplyKey, session_id: str, kind: DeltaKind = "text", text: str = "", *, is_final: bool = False
) -> TextDelta:
    """Return a piece of the reply."""
    made = ReplyDelta if isinstance(reply, StepReply) else NodeDelta
    return made(session_id=session_id, kind=kind, text=text, is_final=is_final, **structs.asdict(reply))


Progress: TypeAlias = ToolProgress | NodeProgress
"""How far something has come that runs."""

LiveUpdate: TypeAlias = ReplyDelta | OutputPartial | ToolProgress | NodeDelta | NodeProgress

Writing: TypeAlias = Callable[[LiveUpdate], bool]
"""Tells whether an update is of a reply that is being written now."""


class UpdatesLost(Struct, frozen=True, kw_only=True):
    """Stands for `count` live updates that were dropped, because a follower was too slow.

    The text of an unfinished reply may have a gap now. The event that follows holds the whole text.
    """

    session_id: str
    count: int
