"""The result of a tool, as JSON.

Stored events are read back as strict JSON. A value that would not survive that is refused here, with its place and its
type, instead of failing the session that recorded it.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set, Sized
from enum import Enum
from functools import partial
from math import isfinite
from typing import Any, TypeVar, cast

from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.exception_words import words_of
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.storable import NoJsonForm, storable, type_name
from steptrail.runtime.kernel.thread_calls import beside_the_loop

T = TypeVar("T")

_MANY = 10_000
"""So many values are looked through in the time that a thread takes to begin, or a little more."""


async def looked_through(look: Callable[[], T], value: object) -> T:
    """Return `look()`, which looks through a value: beside the event loop where that holds many others, however deep.

    A million numbers take a second to look through.
    """
    return await beside_the_loop(look, name="steptrail-values") if _holds_many(value) else look()


def _holds_many(value: object) -> bool:
    left, held = [value], 0
    while left and held <= _MANY:
        each = left.pop()
        if isinstance(each, str | bytes | bytearray) or not isinstance(each, Mapping | Sequence | Set):
            continue
        held += len(cast("Sized", each))
        if isinstance(each, dict) and held <= _MANY:
            left.extend(cast("dict[object, object]", each).values())
        elif isinstance(each, list | tuple) and held <= _MANY:
            left.extend(cast("Sequence[object]", each))
    return held > _MANY


def to_json_value(value: object, where: str = "") -> JsonValue:
    """Return `value` as JSON that can be stored; `where` names it in the error.

    Models, dataclasses, enums, dates, decimals, UUIDs, paths and sets are converted as pydantic does. Raises
    `NotStorable` for what has no JSON form: see `storable`.
    """
    return storable(value, where, convert=_without_files)


def to_json_values(given: Mapping[str, object] | None, where: str) -> dict[str, JsonValue]:
    """Return the values of a mapping as JSON, none for None. Raises `ConfigurationError` for what is no mapping."""
    if given is not None and not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{where}: Expected `object`, got `{type(given).__name__}`")
    return {name: to_json_value(value, f"{where}.{name}") for name, value in (given or {}).items()}


def exact_form(form: Any, plain: Any) -> Any:
    """Return what pydantic writes of a value in JSON, with each NaN and infinity of which it has made null.

    It does so where a type says nothing of a value. `plain` is `plain_form` of the same value. What a type writes in a
    form of its own is left as it is. The members of a set come in an order of their own.
    """
    if form is None:
        return plain if type(plain) is float and not isfinite(plain) else None
    if issubclass(type(form), list):
        held = held_by(plain)
        if not issubclass(type(held), list | tuple | set | frozenset) or len(form) != len(held):
            return form
        made: list[Any] = list(map(exact_form, form, held))
        return in_order(made) if issubclass(type(held), set | frozenset) else made
    if issubclass(type(form), dict) and issubclass(type(held := held_by(plain)), dict):
        if held is not plain:
            return {key: exact_form(each, held.get(key, each)) for key, each in form.items()}
        if len(form) == len(held):
            return dict(zip(form, map(exact_form, form.values(), held.values()), strict=True))
    return form


def nearer_to_json(value: object) -> object:
    """Return a value nearer to JSON, for `storable`. Raises `NoJsonForm`."""
    if isinstance(value, Enum):
        return value.value
    if (path := _path(value)) is not None:
        return path
    if isinstance(value, bytes | bytearray | memoryview):
        raise NoJsonForm(type_name(cast(object, value)))
    if isinstance(value, set | frozenset):
        members = list(cast("Collection[object]", value))
        try:
            return in_order(cast("list[JsonValue]", to_json_value(members)))
        except NotStorable:
            return members  # it is refused where its place is known
    if isinstance(value, Sequence | Set) and not isinstance(value, range):
        return list(cast("Sequence[object]", value))
    if (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and not hasattr(value, "__pydantic_serializer__")
    ):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # pydantic would run an iterator to its end, which may never come.
    if isinstance(value, Iterator):
        raise NoJsonForm(type_name(cast(object, value)))
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python

    try:
        form = to_jsonable_python(value)
        written = getattr(value, "__pydantic_serializer__", None)
        return form if written is None else exact_form(form, plain_form(partial(written.to_python, value), value))
    except Exception as error:  # a model may bring serializers of its own
        if isinstance(value, BaseModel) or hasattr(value, "__pydantic_serializer__"):
            raise NoJsonForm(f"{type_name(value)} ({words_of(error)})") from error
        raise NoJsonForm(type_name(value)) from error


def _without_files(value: object) -> object:
    """Return a value nearer to JSON. Raises `NoJsonForm`, also for a model with a file, whose bytes would be lost."""
    form = nearer_to_json(value)
    if any(part.data is not None for part in files_left_behind(value)):
        raise NoJsonForm(f"{type_name(value)} with a file in it")
    return form


def files_left_behind(value: object) -> Iterator[FilePart]:
    """Yield the files in what pydantic has made JSON of: it writes a file in its form, without its bytes."""
    held = [value] if hasattr(value, "__pydantic_serializer__") else []
    while held:
        each = held_by(held.pop())
        if isinstance(each, FilePart):
            yield each
        elif isinstance(each, Mapping):
            held += cast("Mapping[object, object]", each).values()
        elif isinstance(each, list | tuple | set | frozenset):
            held += cast("Collection[object]", each)


def plain_form(write: Callable[[], Any], value: Any) -> Any:
    """Return what pydantic writes of a value for Python, and the value itself where there is no such form.

    Of a set of models there is none: it would be a set of dictionaries.
    """
    try:
        return write()
    except TypeError:
        return value


def held_by(value: Any) -> Any:
    """Return what a model or a dataclass holds, by name and by the key in JSON; any other value as it is."""
    kind = cast("Any", type(value))
    if getattr(kind, "__pydantic_root_model__", False):
        return held_by(value.root)
    if dataclasses.is_dataclass(kind):
        held: dict[str, Any] = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif hasattr(kind, "model_fields"):
        held = dict(value)
    else:
        return value
    fields: dict[str, Any] = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", {})
    return held | {fields[name].serialization_alias: held[name] for name in fields.keys() & held.keys()}


def in_order(members: Collection[JsonValue]) -> list[Any]:
    """Return the members of a set, as JSON, in an order of their own: that of Python is another in each process."""
    try:
        return sorted(cast("Collection[Any]", members))
    except TypeError:
        return sorted(members, key=repr)


def _path(value: object) -> str | None:
    """Return the text of a path; None for other values, and for a path of bytes. This does not load `pathlib`."""
    path: str | bytes | None = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else None
    return path if isinstance(path, str) else None
