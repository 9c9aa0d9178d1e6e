"""Where an open store came from, for what is kept beside it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Origin:
    """The address that a store was opened at, which may hold a password.

    `path` is the resolved file of a SQLite store; None for a server, and for a store in memory. `patience` is how long
    a write waits for another process, in seconds.
    """

    url: str = field(repr=False)
    path: "Path | None"
    patience: float
    is_read_only: bool
