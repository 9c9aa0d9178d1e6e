"""The base of commands with data from outside, and the answers to approvals, which all machines take."""

from typing import cast

from msgspec import Struct, structs

from steptrail.domain.base import Value, full_form, made, refuse_wrong_types
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_key, a_person
from steptrail.domain.messages import Message
from steptrail.domain.storable import storable

__all__ = ["Approve", "Deny", "FromOutside", "checked_copy"]


class FromOutside(Struct, frozen=True):
    """The base of commands with data from outside.

    Raises `ConfigurationError` for a value of another type and an empty key, and `NotStorable` for data that could not
    be read back.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, (dict, list)):
                # This is also a copy: the command does not change when the caller changes its own data afterwards.
                structs.force_setattr(self, name, storable(cast("object", value), name))
            elif isinstance(value, Message):
                structs.force_setattr(self, name, checked_copy(value, name))
            elif isinstance(value, tuple):
                copied = tuple([checked_copy(item, name) for item in cast("tuple[object, ...]", value)])
                structs.force_setattr(self, name, copied)
            elif isinstance(value, str | float):
                plain = storable(value, name)
                if plain is not value:
                    structs.force_setattr(self, name, plain)
                if name == "by" and isinstance(plain, str):
                    a_person(plain, name)
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
        return made(type(given), cast("dict[str, JsonValue]", form))
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


class Approve(FromOutside, frozen=True, kw_only=True):
    """Say yes to a call that waits for approval, at the instant `at` (microseconds of UTC).

    `arguments` replace those of the call as a whole. With a `digest` the yes holds only for arguments of that digest.
    """

    approval_id: str
    by: str
    at: int
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    digest: str | None = None
    key: str | None = None


class Deny(FromOutside, frozen=True, kw_only=True):
    """Say no to a call that waits for approval, at the instant `at` (microseconds of UTC)."""

    approval_id: str
    by: str
    at: int
    reason: str | None = None
    key: str | None = None
