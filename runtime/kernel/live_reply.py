"""A reply that is being written, as far as it is written: for followers that come meanwhile, here or elsewhere."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from steptrail.domain.live import DeltaKind, ReplyKey, TextDelta
from steptrail.runtime.kernel.live_updates import joined

ReplyEnd: TypeAlias = Literal["whole", "broken"]


class ReplySoFar(Struct, eq=False):
    """The pieces of a reply from its beginning. `version` is that of the stream when it began.

    `end` is None while it is being written. One thread changes it; others may read it meanwhile.
    """

    version: int
    key: ReplyKey
    pieces: list[TextDelta] = []
    end: ReplyEnd | None = None

    def add(self, piece: TextDelta) -> None:
        """Add the next piece."""
        more = joined(self.pieces[-1] if self.pieces else None, piece)
        if isinstance(more, TextDelta):
            self.pieces[-1] = more
        else:
            self.pieces.append(piece)

    def after(self, count: int) -> Iterator[tuple[DeltaKind, str]]:
        """Yield the text after the first `count` characters, each part with its kind."""
        for piece in tuple(self.pieces):
            if count < len(piece.text):
                yield piece.kind, piece.text[count:]
            count = max(0, count - len(piece.text))
