"""A reply that is being written, as far as it is written: for followers that come meanwhile, here or elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from steptrail.domain.live import DeltaKind, ReplyDelta
from steptrail.runtime.kernel.live_inbox import LONGEST_JOINED
from steptrail.runtime.kernel.live_updates import joined

__all__ = ["ReplyEnd", "ReplyKey", "ReplySoFar", "key_of"]

ReplyEnd: TypeAlias = Literal["whole", "broken"]
ReplyKey: TypeAlias = tuple[str, int, int]
"""Identifies a reply within its session: execution, step and attempt."""


def key_of(update: ReplyDelta) -> ReplyKey:
    """Return the key of the reply that a piece belongs to."""
    return update.execution_id, update.step, update.attempt


@dataclass(slots=True, eq=False)
class ReplySoFar:
    """The pieces of a reply from its beginning. `version` is that of the session when it began.

    `end` is None while it is being written. One thread changes it; others may read it meanwhile.
    """

    version: int
    key: ReplyKey
    pieces: list[ReplyDelta] = field(default_factory=list[ReplyDelta])
    end: ReplyEnd | None = None

    def add(self, piece: ReplyDelta) -> None:
        """Add the next piece."""
        more = joined(self.pieces[-1] if self.pieces else None, piece, at_most=LONGEST_JOINED)
        if more is not None:
            self.pieces[-1] = more
        else:
            self.pieces.append(piece)

    def after(self, count: int) -> Iterator[tuple[DeltaKind, str]]:
        """Yield the text after the first `count` characters, each part with its kind."""
        for piece in tuple(self.pieces):
            if count < len(piece.text):
                yield piece.kind, piece.text[count:]
            count = max(0, count - len(piece.text))
