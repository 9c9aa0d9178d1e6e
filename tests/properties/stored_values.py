"""Strategies for stored values, derived from the types of their fields. Hypothesis knows neither structs nor bounds."""

from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from msgspec import Meta, Struct, structs

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.base import LARGEST
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.tools import ToolSpec

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
_money = st.decimals(min_value=0, max_value=1000, places=6)


@cache
def value_of(kind: type[Struct]) -> st.SearchStrategy[Any]:
    """Return values of a class, with fields as their types and bounds allow."""
    fields = {field.name: _of(field.type) for field in structs.fields(kind)}
    if kind is Limits:
        fields["max_cost"] = st.none()  # it needs prices
    if kind is RunOptions:
        fields["budget"] = st.none()  # as above
    if kind is ToolSpec:
        fields["name"] = st.from_regex("[a-z_-]{1,64}", fullmatch=True)
    return st.builds(kind, **fields)


def _of(annotation: Any, *bounds: Meta) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of(arguments[0], *(each for each in arguments[1:] if isinstance(each, Meta)))
    if origin in {Union, UnionType}:
        return st.one_of([_of(each) for each in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(st.deferred(lambda: _of(arguments[0])), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), _of(arguments[1]), max_size=2)
    if annotation is int or annotation is float:
        return _number(annotation, *bounds)
    if annotation is str and bounds:
        return st.from_regex(str(bounds[0].pattern))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from(list(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return st.deferred(lambda: value_of(annotation))
    plain = {str: st.text(max_size=8), bool: st.booleans(), NoneType: st.none(), Decimal: _money, Any: json_values}
    return plain[annotation]


def _number(kind: type[int] | type[float], bounds: Meta | None = None) -> st.SearchStrategy[Any]:
    least = bounds and (bounds.ge if bounds.ge is not None else bounds.gt)
    most = bounds and (bounds.le if bounds.le is not None else bounds.lt)
    if kind is int:
        return st.integers(None if least is None else int(least), LARGEST if most is None else int(most))
    above, below = bounds is not None and bounds.gt is not None, bounds is not None and bounds.lt is not None
    return st.floats(least, most, exclude_min=above, exclude_max=below, allow_nan=False, allow_infinity=False)


EVENTS: dict[type[AgentEvent], st.SearchStrategy[AgentEvent]] = {kind: value_of(kind) for kind in get_args(AgentEvent)}
"""Event class -> events of that class."""

FLOW_EVENTS: dict[type[FlowEvent], st.SearchStrategy[FlowEvent]] = {
    kind: value_of(kind) for kind in get_args(FlowEvent)
}
"""The same for the events of workflows."""
