"""The commands that every kind of machine takes. The machine's `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from msgspec import Struct, structs

from steptrail.domain.base import refuse_wrong_types
from steptrail.domain.kernel.given import a_key, a_person
from steptrail.domain.storable import storable

__all__ = ["CALLER", "Leave", "OwnersCommand", "Pause", "Stop", "Unpause"]

CALLER = "caller"
"""The `by` of the pause of a run whose caller was cancelled. No person asked for that pause, so the run stays due."""


class _Asked(Struct, frozen=True, kw_only=True):
    """The fields of a request by a person.

    Raises `ConfigurationError` for a value of another type, and `NotStorable` for text that could be stored and not be
    read again.
    """

    by: str
    reason: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        refuse_wrong_types(self)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if (plain := storable(value, name)) is not value:
                structs.force_setattr(self, name, plain)
        a_person(self.by, "by")
        if self.key is not None:
            a_key(self.key, "key")


class Pause(_Asked, frozen=True, kw_only=True):
    """Pause the open run at the next safe point."""


class Unpause(_Asked, frozen=True, kw_only=True):
    """Lift the pause of the open run, or withdraw the request for one. An owner is to go on with the run."""


class Stop(_Asked, frozen=True, kw_only=True):
    """Stop the open run for good."""


class Leave(Struct, frozen=True, kw_only=True):
    """Close the open segment at the instant `at` (microseconds of UTC), because its owner was cancelled.

    A machine answers with a pause by the person who has asked for one, else by `CALLER`, or with no events when no
    segment is open.
    """

    at: int


OwnersCommand = Pause | Unpause | Stop | Leave
"""The commands that the kernel itself gives to a machine."""
