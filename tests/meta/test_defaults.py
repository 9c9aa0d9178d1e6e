"""A stored field that holds its default is not written, so the default must be one that equals nothing else.

Allowed are None, a truth value, a member of an enumeration, an integer from 0 to 256, `()`, and an empty dictionary.
Settings are spelt out in the log, with their defaults, and may have any.
"""

from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any, Literal, get_args

import pytest
from msgspec import NODEFAULT, field, structs

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.base import Value
from steptrail.domain.inference import ToolChoice
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.messages import TextPart
from steptrail.domain.usage import Usage


def wrong_defaults(kind: type[Value]) -> list[str]:
    """Return the fields of a stored class whose default is none of the allowed ones."""
    return [field.name for field in structs.fields(kind) if not (field.required or is_allowed(field))]


def is_allowed(field: structs.FieldInfo) -> bool:
    if field.default is NODEFAULT:
        return field.default_factory is dict
    match field.default:
        case None | bool() | Enum():
            return True
        case int(number):
            return 0 <= number <= 256
        case default:
            return bool(default == ())


def stored_in(kind: type[Value]) -> Iterator[type[Value]]:
    """Yield the class and those of the values inside it."""
    yield kind
    for each in structs.fields(kind):
        yield from (below for found in values_of(each.type) for below in stored_in(found))


def values_of(annotation: Any) -> Iterator[type[Value]]:
    if isinstance(annotation, type) and issubclass(annotation, Value):
        yield annotation
    for inner in get_args(annotation):
        yield from values_of(inner)


@pytest.fixture
def stored(modules: dict[str, ModuleType]) -> set[type[Value]]:
    """The classes of events and of values inside them, without those that are stored with all of their fields."""
    domain = {name for name in modules if name.startswith("steptrail.domain.")}
    events = [event for event in EVENT_TYPES.values() if event.__module__ in domain]
    return {kind for event in events for kind in stored_in(event) if kind.__struct_config__.omit_defaults}


def test_no_stored_field_has_a_default_that_something_else_may_equal(stored: set[type[Value]]) -> None:
    assert stored > {Usage, TextPart, *get_args(AgentEvent)}
    assert {kind.__name__: wrong for kind in stored if (wrong := wrong_defaults(kind))} == {}


class Allowed(Value, frozen=True, kw_only=True):
    required: float
    absent: float | None = None
    is_done: bool = False
    choice: ToolChoice = ToolChoice.AUTO
    count: int = 0
    most: int = 256
    several: tuple[float, ...] = ()
    by_name: dict[str, int] = {}  # noqa: RUF012


class Wrong(Value, frozen=True, kw_only=True):
    word: Literal["now", "later"] = "now"
    seconds: float = 0.0
    by: str = "user"
    too_many: int = 257
    negative: int = -1
    value: Usage = Usage()
    pair: tuple[int, ...] = (1,)
    listed: list[int] = []  # noqa: RUF012
    filled: dict[str, int] = field(default_factory=lambda: {"a": 1})


def test_each_allowed_default_is_allowed() -> None:
    assert wrong_defaults(Allowed) == []


@pytest.mark.parametrize("name", Wrong.__struct_fields__)
def test_any_other_default_is_found(name: str) -> None:
    assert name in wrong_defaults(Wrong)


def test_a_wrong_default_is_found_inside_of_an_event_and_of_what_it_holds() -> None:
    class Inner(Value, frozen=True, kw_only=True):
        wrong: Wrong | None = None

    class Outer(Event, frozen=True, kw_only=True):
        parts: tuple[Inner, ...] | dict[str, Inner] = ()

    assert set(stored_in(Outer)) == {Outer, Inner, Wrong, Usage}
