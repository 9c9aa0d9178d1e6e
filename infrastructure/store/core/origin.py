"""Where an open store came from, for what is kept beside it."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Origin(NamedTuple):
    """The address that a store was opened at.

    `path` is the resolved file of a SQLite store; None for a server, and for a store in memory. `patience` is how long
    a write waits for another process, in seconds.
    """

    url: str
    path: "Path | None"
    patience: float
    is_read_only: bool
