"""The base of every value that is stored: frozen, closed, built without a check and checked when it is read.

A constructor checks nothing, because a step makes dozens of values and they are made by typed code. Whatever comes from
outside is checked where it comes in: JSON by `domain/storable.py`, the settings that people write by `Settings`, stored
bytes by the decoder.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from decimal import Decimal
from enum import Enum
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec import Meta, Struct

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.readable import readable
from steptrail.domain.storable import OBJECTS

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

LARGEST = 2**63 - 1
"""The largest number that a setting may hold: every reader of JSON can hold it too."""

_LONGEST = 100

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""The types of what JSON has and that holds nothing. Most of every value is such."""
NO_SUCH_FIELD = "There is no such field"
_OF_A_KEY = "key` in `"
_ABOUT_A_FIELD = re.compile("Object (missing required|contains unknown) field `(.*)`")

V = TypeVar("V", bound="Value")

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
BoundedCount = Annotated[int, Meta(ge=0, le=LARGEST)]
BoundedPositive = Annotated[int, Meta(ge=1, le=LARGEST)]
CENTURY_SECONDS = 100 * 365.25 * 86_400
"""The longest time that is planned: its end is a date, and fits into every store."""
BoundedSeconds = Annotated[float, Meta(ge=0, le=CENTURY_SECONDS)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=CENTURY_SECONDS)]
Draw = Annotated[float, Meta(ge=0, lt=1)]
"""A random number."""


class Value(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A value with no identity. Unknown fields are refused on reading, so a misspelt one is never lost.

    Python's collector of cycles does not look at values: they hold JSON and values alone, so none can hold itself.

    Field defaults are part of the storage format: a field that holds its default is not written. So a default is None,
    a truth value, a member of an enumeration, an integer from 0 to 256, `()` or `{}`: for those, to be the default and
    to equal it is the same. Each class says `frozen=True, kw_only=True` itself, because type checkers inherit neither.
    """

    CONTENT: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold content; see `domain/content.py`."""
    STATE: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold state, although their type does not say so."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Have pydantic read and write the value in its stored form, for the models of services."""
        from steptrail.domain.pydantic_form import core_schema_of

        return core_schema_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        """Return the JSON schema of the stored form."""
        from steptrail.domain.pydantic_form import json_schema_of

        return json_schema_of(cls)


class Settings(Value, frozen=True, omit_defaults=False):
    """A value that people write down, stored with all of its fields.

    The log must say which settings held for a run, also after a later version has changed a default. A constructor
    converts what has a plain form, such as `"retry"` for a member of an enumeration or `0.1` for a `Decimal`. What
    cannot be used is a `ConfigurationError` of one line that names the field.
    """

    def __post_init__(self) -> None:
        if _reads_what_is_stored.get():
            return
        for field, wanted in _values_of_another_class(self):
            if not isinstance(getattr(self, field), Mapping):
                self.refuse(field, f"Expected {wanted}")
        try:
            checked = msgspec.convert(self, readable(_twin(type(self))), from_attributes=True)
        except msgspec.ValidationError as error:
            place, fault = place_and_fault(error)
            field = place.partition("[")[0].partition(".")[0]
            if fault.startswith("Invalid enum value"):
                fault = f"Expected one of {', '.join(_choices(types_of(type(self))[field]))}"
            self.refuse(field, "Expected a decimal number such as '0.50'" if "decimal string" in fault else fault)
        except ValueError:
            self.refuse(*_incomparable_in(self))
        for name in self.__struct_fields__:
            value = getattr(checked, name)
            if type(value) is float and not math.isfinite(value):
                self.refuse(name, "Expected a finite number")
            if value is not getattr(self, name):
                msgspec.structs.force_setattr(self, name, value)

    def refuse(self, field: str, why: str) -> NoReturn:
        """Raise the `ConfigurationError` about the value of a field."""
        raise InvalidSetting(type(self).__name__, field, f"{why}, not {repr_of(getattr(self, field))}")


_reads_what_is_stored = ContextVar("reads_what_is_stored", default=False)
"""Whether stored bytes are being read just now, in this thread. The decoder checks every type then."""


def reader_of(kind: type[V]) -> Callable[[bytes | str], V]:
    """Return what reads a value from its stored form. It raises `ValueError` where that is none of this class.

    Settings inside of it have been converted and checked when they were written, and the decoder checks their types. To
    check them once more took two thirds of the time in which the start of a run was read. What a class of settings
    checks beside types is checked here too.
    """
    decode = msgspec.json.Decoder(readable(kind)).decode
    if not _holds_settings(kind):
        return decode

    def read(stored: bytes | str) -> V:
        token = _reads_what_is_stored.set(True)
        try:
            return decode(stored)
        finally:
            _reads_what_is_stored.reset(token)

    return read


def read_back(value: V) -> V:
    """Return a value as it will be read from the log. Raises for one that could not be stored, or read again.

    A constructor looks at no types, and a value may be made by anybody.
    """
    return msgspec.json.decode(msgspec.json.encode(value), type=readable(type(value)))


def _holds_settings(hint: Any) -> bool:
    """Tell whether a value of this type may be settings, or hold some."""
    if isinstance(hint, type) and issubclass(hint, Value):
        return issubclass(hint, Settings) or any(map(_holds_settings, types_of(hint).values()))
    return any(map(_holds_settings, get_args(hint)))


def full_form(value: Any) -> Any:
    """Return a value as JSON of dictionaries and lists, with every field under its own name, defaults included."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Struct):
        config = type(value).__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field is not None else {}
        return tag | {name: full_form(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, OBJECTS):
        return {key: full_form(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [full_form(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Decimal) else value


@cache
def types_of(kind: type[Struct]) -> Mapping[str, Any]:
    """Return the type of each field, by its name. It takes 0.1 ms to find them out, so they are kept."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def an_object(given: object, what: str) -> Mapping[str, Any]:
    """Return `given`, which must be an object as JSON has it. Raises `ValueError`."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given)
    raise ValueError(f"{what} is an object, not {type(given).__name__}")


def made(kind: type[V], fields: Mapping[str, Any]) -> V:
    """Return the value with these fields, each checked. Raises `ValueError` that names the field that is wrong."""
    try:
        return msgspec.convert(fields, readable(kind))
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidSetting):
            raise error.__cause__ from None
        place, fault = place_and_fault(error)
        field, *_ = re.split(r"[.\[]", place, maxsplit=1)
        # Stored names may be short; people know the fields.
        name = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)).get(field, field)
        if fault.startswith("Invalid enum value") and place == field:
            fault = f"{fault}: it is one of {', '.join(_choices(types_of(kind)[name]))}"
        place = f"{name}{place.removeprefix(field)}"
        raise ValueError(f"{kind.__name__}: {place}: {fault}" if place else f"{kind.__name__}: {fault}") from None


def place_and_fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return where a value is wrong, such as `usage.models[0].usage` or an empty text, and what is wrong there."""
    fault, _, place = str(error).partition(" - at `")
    if place.startswith(_OF_A_KEY):
        fault, place = f"{fault} as a key", place.removeprefix(_OF_A_KEY)
    place = place.removeprefix("$").removesuffix("`")
    if about_a_field := _ABOUT_A_FIELD.fullmatch(fault):
        problem, field = about_a_field.groups()
        place = f"{place}.{field}"
        fault = "It is missing" if problem.startswith("missing") else NO_SUCH_FIELD
    return place.lstrip("."), fault


def refuse_wrong_types(given: Struct) -> None:
    """Raise the `ConfigurationError` about a field whose value does not have the type of the field.

    A type checker says so too, but not to everybody; and what is stored with another type cannot be read again.
    """
    for name, wanted in _values_of_another_class(given):
        raise ConfigurationError(f"{name}: Expected {wanted}, got `{type(getattr(given, name)).__name__}`")
    try:
        msgspec.convert(given, readable(_twin(type(given))), from_attributes=True)
    except msgspec.ValidationError as error:
        place, fault = place_and_fault(error)
        raise ConfigurationError(f"{place}: {fault}") from None
    except ValueError:
        raise ConfigurationError(": ".join(_incomparable_in(given))) from None


def _values_of_another_class(given: Struct) -> Iterator[tuple[str, str]]:
    """Yield the fields that are to hold a value and hold something else, each with the classes that it may hold.

    A conversion would not tell: any object, a function too, has the attributes of a class whose fields all have
    defaults, such as that of the limits or of an error policy.
    """
    for name, kinds in _fields_of_values(type(given)):
        if not isinstance(getattr(given, name), kinds):
            yield name, " or ".join(f"`{kind.__name__}`" for kind in kinds if kind is not type(None))


@cache
def _fields_of_values(kind: type[Struct]) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Return the fields that hold a value and nothing else, or None, each with its classes."""
    found: list[tuple[str, tuple[type, ...]]] = []
    for name, hint in types_of(kind).items():
        kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        if all(isinstance(each, type) for each in kinds) and any(issubclass(each, Struct) for each in kinds):
            found.append((name, kinds))
    return tuple(found)


def _incomparable_in(given: Struct) -> tuple[str, str]:
    """Return the first field that cannot be compared with its type, for half a character or a signalling NaN."""
    for name, kind in types_of(type(given)).items():
        try:
            msgspec.convert(getattr(given, name), readable(kind), from_attributes=True)
        except msgspec.ValidationError:
            continue
        except ValueError as error:
            is_text = isinstance(error, UnicodeEncodeError)
            return name, "Expected valid Unicode" if is_text else "Expected a finite number"
    raise AssertionError("every text is valid Unicode, and every number one that can be compared")


@cache
def _twin(kind: type[Struct]) -> type[Struct]:
    """Return a class with the fields of `kind` that checks nothing more than their types."""
    return msgspec.defstruct(kind.__name__, [*types_of(kind).items()])


def _choices(hint: Any) -> Iterator[str]:
    """Yield what a text may be in a field of this type, as people write it."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        yield from (repr(member.value) for member in hint)
    elif get_origin(hint) is Literal:
        yield from map(repr, get_args(hint))
    else:
        for part in get_args(hint):
            yield from _choices(part)


def repr_of(value: object) -> str:
    """Return how an error names a value, whatever it is and however long."""
    try:
        said = repr(value)
    except Exception:
        said = f"a {type(value).__name__}"
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
