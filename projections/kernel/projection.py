"""Says what a projection is: a pure fold of each stream that writes rows as it goes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Table

F = TypeVar("F")

OnError = Literal["stop", "skip"]
"""How a projection treats an entry at which it raises, or makes a row that its table does not take."""


class Projection(ABC, Generic[F]):
    """Makes tables of the log. `F` is what it remembers of one stream, in memory only.

    The fold of a stream may be forgotten between any two entries. Then it is made again from the first entry of the
    stream, and what that writes is thrown away. So `apply` may use the fold and the entry only: not the clock, not the
    other streams, not chance. `steptrail.testing.projection_contract` tries that.
    """

    name: str
    """The name of the read model."""
    version: int = 1
    """The version of its tables. Another version is built beside the one before."""
    prefixes: Sequence[str] = ()
    """The kinds of streams that it reads, such as `agent:`; empty for all."""
    types: Sequence[str] = ()
    """The stored types that it reads; empty for all."""
    heads: bool = True
    """Whether it looks at the heads of commits, such as who wrote an event. Without them the log is read quicker."""
    tables: Sequence[Table]
    """The tables that it writes. Nobody else writes them."""
    on_error: OnError = "stop"
    """Whether it stops at an entry at which it raises, or passes it as if it were not there, and says so."""

    @abstractmethod
    def begin(self, stream: str) -> F:
        """Return the fold of a stream before its first entry."""

    @abstractmethod
    def apply(self, fold: F, entry: LogEntry, changes: Changes) -> F | None:
        """Return the fold after an entry, and say what the entry changes. It may change the fold in place.

        None when nothing of the stream needs to be remembered any more. A later entry of it is then folded from what
        `begin` returns.
        """

    def end_batch(self, fold: F, changes: Changes) -> None:
        """Write the rows that are made of a whole fold. Called where a batch ends, for each stream with an entry in it.

        A row that most entries of a stream change is made here once, and not for each of them. It may depend on the
        fold only, so that it makes no difference where a batch ends.
        """
