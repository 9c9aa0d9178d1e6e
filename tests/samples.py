"""The smallest value of any stored class: what is required is there, everything else is left out."""

from decimal import Decimal
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import Struct, structs

M = TypeVar("M", bound=Struct)
_PLAIN: dict[object, object] = {str: "text", int: 1, float: 0.5, bool: True, Decimal: Decimal(1)}


def smallest(model: type[M], **given: object) -> M:
    """Return an instance of `model` with `given` fields, and the rest of those that are required made up."""
    made_up = {
        field.name: _of(field.type) for field in structs.fields(model) if field.required and field.name not in given
    }
    return model(**made_up, **given)


def _of(annotation: Any) -> object:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return next(iter(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return smallest(annotation)
    if origin is Literal:
        return arguments[0]
    if origin is Annotated:
        return _of(arguments[0])
    if origin in {Union, UnionType}:
        return None if NoneType in arguments else _of(arguments[0])
    assert isinstance(origin, type)
    return origin()
