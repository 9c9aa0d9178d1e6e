"""A stored field that holds its default is not written, so the default must be one that equals nothing else.

Allowed are None, a truth value, a member of an enumeration, an integer from 0 to 256, `()`, and an empty dictionary.
Settings are spelt out in the log, with their defaults, and may have any.
"""

from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import Field
from pydantic.fields import FieldInfo

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.base import FrozenModel
from steptrail.domain.inference import ToolChoice
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.messages import TextPart
from steptrail.domain.usage import Usage


def wrong_defaults(kind: type[FrozenModel]) -> list[str]:
    """Return the fields of a stored class whose default is none of the allowed ones."""
    return [
        name
        for name, field in kind.model_fields.items()
        if not (field.is_required() or is_tag(field) or is_allowed(field))
    ]


def is_tag(field: FieldInfo) -> bool:
    """Tell whether the field can hold but one value: it names a member of a union, and is always written."""
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def is_allowed(field: FieldInfo) -> bool:
    match field.get_default(call_default_factory=True, validated_data={}):
        case None | bool() | Enum():
            return True
        case int(number):
            return 0 <= number <= 256
        case default:
            return default in ((), {})


def stored_in(kind: type[FrozenModel]) -> Iterator[type[FrozenModel]]:
    """Yield the class and those of the values inside it."""
    yield kind
    for field in kind.model_fields.values():
        yield from (below for found in models_of(field.annotation) for below in stored_in(found))


def models_of(annotation: Any) -> Iterator[type[FrozenModel]]:
    if isinstance(annotation, type) and issubclass(annotation, FrozenModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_of(inner)


@pytest.fixture
def stored(modules: dict[str, ModuleType]) -> set[type[FrozenModel]]:
    """The classes of events and of values inside them, without those that are stored with all of their fields."""
    domain = {name for name in modules if name.startswith("steptrail.domain.")}
    events = [event for event in EVENT_TYPES.values() if event.__module__ in domain]
    written_short = {kind for event in events if not event.SPELLS_OUT for kind in stored_in(event)}
    return written_short | set(events)


def test_no_stored_field_has_a_default_that_something_else_may_equal(stored: set[type[FrozenModel]]) -> None:
    assert stored > {Usage, TextPart, *get_args(AgentEvent)}
    assert {kind.__name__: wrong for kind in stored if (wrong := wrong_defaults(kind))} == {}


class Allowed(FrozenModel):
    kind: Literal["allowed"] = "allowed"
    required: float
    absent: float | None = None
    is_done: bool = False
    choice: ToolChoice = ToolChoice.AUTO
    count: int = 0
    most: int = 256
    several: tuple[float, ...] = ()
    by_name: dict[str, int] = Field(default_factory=dict[str, int])


class Wrong(FrozenModel):
    word: Literal["now", "later"] = "now"
    seconds: float = 0.0
    by: str = "user"
    too_many: int = 257
    negative: int = -1
    value: Usage = Usage()
    pair: tuple[int, ...] = (1,)
    listed: list[int] = Field(default_factory=list[int])
    filled: dict[str, int] = Field(default_factory=lambda: {"a": 1})


def test_each_allowed_default_is_allowed() -> None:
    assert wrong_defaults(Allowed) == []


@pytest.mark.parametrize("name", Wrong.model_fields)
def test_any_other_default_is_found(name: str) -> None:
    assert name in wrong_defaults(Wrong)


def test_a_wrong_default_is_found_inside_of_an_event_and_of_what_it_holds() -> None:
    class Inner(FrozenModel):
        wrong: Wrong | None = None

    class Outer(Event):
        parts: tuple[Inner, ...] | dict[str, Inner] = ()

    assert set(stored_in(Outer)) == {Outer, Inner, Wrong, Usage}
