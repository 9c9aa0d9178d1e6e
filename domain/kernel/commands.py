"""The commands that every kind of machine takes, and the base of all commands. `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from typing import ClassVar, cast

from msgspec import Struct, structs

from steptrail.domain.base import Value, full_form, made, refuse_wrong_types
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.files import with_bytes_of
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_key, for_the_record
from steptrail.domain.messages import Message
from steptrail.domain.storable import storable

CALLER = "caller"
"""The `by` of the pause of a run whose caller was cancelled. No person asked for that pause, so the run stays due."""


class FromOutside(Struct, frozen=True):
    """The base of commands with data from outside.

    Raises `ConfigurationError` for a value of another type and an empty key, and `NotStorable` for data that could not
    be read back. `DOING` are the words of a refusal, for a command that may have a key.
    """

    DOING: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, tuple):
                plain: object = tuple([checked_copy(item, name) for item in cast("tuple[object, ...]", value)])
            elif isinstance(value, str | float | dict | list | Message):
                # This is also a copy: the command does not change when the caller changes its own data afterwards.
                plain = checked_copy(cast("object", value), name)
            else:
                continue
            if plain is not value:
                structs.force_setattr(self, name, plain)
            if name == "by" and isinstance(plain, str):
                for_the_record(plain, name)
            if name == "key" and isinstance(plain, str):
                a_key(plain, name)
        refuse_wrong_types(self)


def checked_copy(given: object, where: str) -> object:
    """Return a checked copy of a message, of another value that is stored, or of JSON.

    Raises `ConfigurationError` for a field of another type, and `NotStorable`; both name the place, from `where` on.
    """
    if not isinstance(given, Value):
        return storable(given, where)
    form = storable(full_form(given), where)
    try:
        return with_bytes_of(given, made(type(given), cast("dict[str, JsonValue]", form)))
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


class _Asked(FromOutside, frozen=True, kw_only=True):
    """The fields of a request by a person."""

    by: str
    reason: str | None = None
    key: str | None = None


class Pause(_Asked, frozen=True, kw_only=True):
    """Pause the open run at the next safe point."""

    DOING = "pause"


class Unpause(_Asked, frozen=True, kw_only=True):
    """Lift the pause of the open run, or withdraw the request for one. An owner is to go on with the run."""

    DOING = "unpause"


class Stop(_Asked, frozen=True, kw_only=True):
    """Stop the open run for good."""

    DOING = "stop"


class Leave(Struct, frozen=True, kw_only=True):
    """Close the open segment at the instant `at` (microseconds of UTC), because its owner was cancelled.

    All that the owner has begun has ended, and its ends are recorded.

    A machine answers with a pause by the person who has asked for one, else by `CALLER`, or with no events when no
    segment is open.
    """

    at: int


OwnersCommand = Pause | Unpause | Stop | Leave
"""The commands that the kernel itself gives to a machine."""
