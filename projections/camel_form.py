"""The form in which services and front ends read dataclasses: JSON, with each field under its name in camel case."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from steptrail.domain.camel_case import camel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_PLAIN = (str, int, float, bool)


def camel_fields(value: "DataclassInstance") -> dict[str, Any]:
    """Return the fields of a dataclass as JSON, for a `to_dict` that says no more than they do."""
    return {camel(each.name): camel_form(getattr(value, each.name)) for each in fields(value)}


def camel_form(value: Any) -> Any:
    """Return what a field holds as JSON: an instant in ISO 8601, and what has a form of its own in that one.

    The keys of a dictionary are data, and stay as they are.
    """
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_dict"):
        return {**value.to_dict()}
    if is_dataclass(value) and not isinstance(value, type):
        return camel_fields(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, list | tuple):
        return [camel_form(each) for each in cast("Iterable[Any]", value)]
    return value.isoformat() if isinstance(value, datetime) else value
