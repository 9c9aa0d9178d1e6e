"""The commands that every kind of machine takes. The machine's `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from dataclasses import dataclass, fields

from steptrail.domain.errors import NotStorable
from steptrail.domain.storable import storable

__all__ = ["CALLER", "Leave", "OwnersCommand", "Pause", "Stop"]

CALLER = "caller"
"""The `by` of the pause of a run whose caller was cancelled. No person asked for that pause, so the run stays due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The fields of a request by a person. Raises `NotStorable` for text that could be stored and not be read again."""

    by: str
    reason: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            storable(getattr(self, each.name), each.name)
        if "\0" in self.by:
            # The name becomes a column of text, and PostgreSQL allows no NUL in such a column.
            raise NotStorable("by", "a name with a NUL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(_Asked):
    """Pause the open run at the next safe point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Asked):
    """Stop the open run for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Close the open segment at the instant `at` (microseconds of UTC), because its owner was cancelled.

    A machine answers with a pause by `CALLER`, or with no events when no segment is open.
    """

    at: int


OwnersCommand = Pause | Stop | Leave
"""The commands that the kernel itself gives to a machine."""
