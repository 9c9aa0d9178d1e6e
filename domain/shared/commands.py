"""The base of commands with data from outside, and the answers to approvals, which all machines take."""

from dataclasses import dataclass, fields
from typing import cast

from steptrail.domain.base import Value, full_form, made
from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.storable import storable

__all__ = ["Approve", "Deny", "FromOutside"]


class FromOutside:
    """The base of commands with data from outside. Raises `NotStorable` for data that could not be read back."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(cast("Approve", self)):
            value = getattr(self, each.name)
            if isinstance(value, (dict, list)):
                # This is also a copy: the command does not change when the caller changes its own data afterwards.
                object.__setattr__(self, each.name, storable(cast("object", value), each.name))
            elif isinstance(value, Message):
                object.__setattr__(self, each.name, _copy(value, each.name))
            elif isinstance(value, tuple):
                copied = tuple([_copy(item, each.name) for item in cast("tuple[object, ...]", value)])
                object.__setattr__(self, each.name, copied)
            elif isinstance(value, str | float):
                storable(value, each.name)
                if each.name == "by" and "\0" in str(value):
                    # It becomes a column of text, which PostgreSQL ends there.
                    raise NotStorable("by", "a name with a NUL")


def _copy(given: object, where: str) -> object:
    """Return a checked copy of a message, of another value that is stored, or of JSON."""
    if not isinstance(given, Value):
        return storable(given, where)
    form = storable(full_form(given), where)
    try:
        return made(type(given), cast("dict[str, JsonValue]", form))
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(FromOutside):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny(FromOutside):
    """Say no to a call that waits for approval, at the instant `at` (microseconds of UTC)."""

    approval_id: str
    by: str
    at: int
    reason: str | None = None
    key: str | None = None
