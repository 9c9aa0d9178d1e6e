"""The base of every event, and the registry of stored type names.

An event is a fact in the past tense. Its `TYPE` and its field names are the storage format: renaming a class is free,
renaming either of the other two needs an upcaster and a stored sample. Ids, version and time belong to the record
around the event, so tests compare plain events.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar, NamedTuple

from steptrail.domain.base import Value
from steptrail.domain.json_value import JsonValue

Payload = dict[str, JsonValue]


class EventKind(StrEnum):
    """The kind of an event: who writes it, and whether it is kept when another process has appended first."""

    WORLD = "world"
    """The outside world did something. It has happened, so it is appended again; to repeat it would cost something."""
    FACT = "fact"
    """The owner's code did something, such as a hook. It has happened, so it is appended again."""
    INTENT = "intent"
    """Something was about to happen or was concluded. It is dropped, and the machine is asked anew."""
    ANEW = "anew"
    """An intent that is dropped with everything after it, because nothing of that has met the outside world."""
    OUTSIDE = "outside"
    """Somebody other than the owner asked for something. It is decided anew, and does not show that the owner lives."""


Upcast = Callable[[Payload], Payload]


class Upcaster(NamedTuple):
    """Makes a payload of the type `successor` from the payload of a retired type."""

    upcast: Upcast
    successor: str


EVENT_TYPES: dict[str, type["Event"]] = {}
"""Stored type name -> event class, for every event of every machine."""

UPCASTERS: dict[str, Upcaster] = {}
"""Retired type name -> its upcaster."""


def register_upcaster(retired: str, upcast: Upcast, successor: str) -> None:
    """Register an upcaster, which keeps the events of a retired type readable. `successor` may itself be retired.

    Raises `ValueError` when an event class has the name `retired`, or when that name has an upcaster already.
    """
    if retired in EVENT_TYPES or retired in UPCASTERS:
        msg = f"the event type {retired!r} is " + ("in use" if retired in EVENT_TYPES else "upcast already")
        raise ValueError(msg)
    UPCASTERS[retired] = Upcaster(upcast, successor)


class Event(Value, frozen=True):
    """The base of all events. An event is immutable and says in the past tense what happened.

    A concrete class states its stored name (`TYPE = "step.started.v1"`), its `KIND`, and which fields are content.
    """

    TYPE: ClassVar[str] = ""
    KIND: ClassVar[EventKind]
    UPCASTS: ClassVar[Mapping[str, Upcast]] = {}
    """Retired type name -> the function that makes a payload of this event from a payload of that type."""

    @property
    def counts_as(self) -> EventKind:
        """The kind of this one event. It is the kind of the class, unless it depends on who wrote the event."""
        return self.KIND

    def __init_subclass__(cls) -> None:
        """Register the stored type name.

        Raises `TypeError` for a second class with one name, and for one without a kind.
        """
        super().__init_subclass__()
        name = cls.__dict__.get("TYPE")
        if name is None:
            return
        if name in EVENT_TYPES:
            msg = f"the event type {name!r} belongs to {EVENT_TYPES[name].__name__}; {cls.__name__} needs its own"
            raise TypeError(msg)
        if "KIND" not in cls.__dict__:
            # An event without a kind would be dropped by a lost append, and no test would notice.
            raise TypeError(f"the event {cls.__name__} ({name!r}) says no kind: give it a `KIND`")
        EVENT_TYPES[name] = cls
        for retired, upcast in cls.__dict__.get("UPCASTS", {}).items():
            register_upcaster(retired, upcast, name)


_FACTS = frozenset({EventKind.WORLD, EventKind.FACT})


def is_fact(event: Event) -> bool:
    """Tell whether the event has happened, whatever others have appended. If so, it outlives a conflict."""
    return event.counts_as in _FACTS


def is_world_fact(event: Event) -> bool:
    """Tell whether the outside world did what the event says, so that to do it again would cost something."""
    return event.counts_as is EventKind.WORLD


def begins_anew(event: Event) -> bool:
    """Tell whether the event is dropped together with everything after it when its append is lost.

    That is so for a decision and for the start of a step: before they are stored, nothing after them has met the
    outside world. The changes that hooks made in a dropped step are dropped too, and the hooks run again in the next.
    """
    return event.counts_as is EventKind.ANEW
