"""The commands that every machine takes, whatever else it takes. Its `decide` accepts or rejects them.

`by` names who asks; `key` is an idempotency key: the same command with the same key is accepted once.
"""

from dataclasses import dataclass, fields

from steptrail.domain.errors import NotStorable
from steptrail.domain.storable import storable

__all__ = ["CALLER", "Leave", "OwnersCommand", "Pause", "Stop"]

CALLER = "caller"
"""Who pauses a run whose caller was cancelled. No person asked for that, so the run is due again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Refuses with `NotStorable`, which names the field, text that could be written into the log and not be read."""

    by: str
    reason: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            storable(getattr(self, each.name), each.name)
        if "\0" in self.by:
            # It becomes a column of text, which PostgreSQL ends there.
            raise NotStorable("by", "a name with a NUL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(_Asked):
    """Pause the open run at the next safe point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Asked):
    """Stop the open run for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Close the open segment at the instant `at` (microseconds of UTC): its owner was cancelled and goes away.

    A machine makes a pause of it that came from `CALLER`, and nothing where no segment is open.
    """

    at: int


OwnersCommand = Pause | Stop | Leave
"""What the kernel itself brings to a machine."""
