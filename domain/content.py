"""Tells which fields of a stored value hold content, and which hold state.

Content is the words of people and models, the arguments and results of tools, and the texts of errors. It may have to
be sealed or erased one day. State is everything from which decisions, lists and sums are folded: ids, names, times,
numbers, settings, and votes. A class names its content in `CONTENT`. Numbers, members of an enumeration and truth
values are state by their type. A field of any other type must be named in `CONTENT` or in `STATE`, so that no field
becomes state because it was forgotten: an event with such a field cannot be stored.
"""

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from steptrail.domain.base import Value, types_of

_STATE_BY_TYPE = frozenset({int, float, bool, Decimal, NoneType})


@cache
def content_of(kind: type[Value]) -> tuple[str, ...]:
    """Return the paths of the content of a class, such as `error.message`, by the names that are stored.

    Raises `TypeError` for a field that is neither content nor state, for one that is named as both, and for a name that
    is no field.
    """
    return tuple(_content_of(kind))


def _content_of(kind: type[Value]) -> Iterator[str]:
    fields = types_of(kind)
    for name in kind.CONTENT | kind.STATE:
        if name not in fields or name in kind.CONTENT & kind.STATE:
            why = "is no field of it" if name not in fields else "is said to be both"
            raise TypeError(f"content and state of {kind.__name__}: {name!r} {why}")
    for name, annotation in fields.items():
        if name in kind.CONTENT:
            yield name
        elif name not in kind.STATE:
            for below in _below(annotation, f"{kind.__name__}.{name}"):
                yield f"{name}.{below}"


def _below(annotation: Any, field: str) -> Iterator[str]:
    """Yield the content inside values of this type."""
    arguments = get_args(annotation)
    if annotation in _STATE_BY_TYPE or annotation is Ellipsis or get_origin(annotation) is Literal:
        return
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return
    if isinstance(annotation, type) and issubclass(annotation, Value):
        yield from _content_of(annotation)
    elif arguments and get_origin(annotation) is not dict:
        yield from dict.fromkeys(path for inner in arguments for path in _below(inner, field))
    elif not isinstance(annotation, type) and not arguments and not isinstance(annotation, str):
        return  # what `Annotated` says beside the type
    else:
        raise TypeError(f"{field} is neither content nor state: name it in `CONTENT` or in `STATE` of its class")
