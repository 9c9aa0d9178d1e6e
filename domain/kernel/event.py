"""The base of every event, and the registry of stored type names.

An event is a fact in the past tense. Its `TYPE` and its field names are the storage format: renaming a class is free,
renaming either of the other two needs an upcaster and a stored sample. Ids, version and time belong to the record
around the event, so tests compare plain events.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from pydantic import JsonValue

from steptrail.domain.base import FrozenModel
from steptrail.domain.content import content_of

__all__ = [
    "EVENT_TYPES",
    "UPCASTERS",
    "Event",
    "EventKind",
    "Payload",
    "Upcast",
    "Upcaster",
    "begins_anew",
    "is_fact",
    "is_world_fact",
    "register_upcaster",
]

Payload = dict[str, JsonValue]


class EventKind(StrEnum):
    """What becomes of an event when somebody else appended first, and who writes it."""

    WORLD = "world"
    """What the outside world did: it has happened, is appended again, and cannot be had again for free."""
    FACT = "fact"
    """What the owner's code did, such as a hook: it has happened, and is appended again."""
    INTENT = "intent"
    """What was about to happen or was concluded: it is dropped, and the machine is asked anew."""
    ANEW = "anew"
    """An intent that takes with it all that came after it, since nothing of that has met the outside world."""
    OUTSIDE = "outside"
    """What others than the owner write. It is decided anew, and is no sign of the owner's life."""


Upcast = Callable[[Payload], Payload]


class Upcaster(NamedTuple):
    """How the payload of a retired type becomes the payload of `successor`."""

    upcast: Upcast
    successor: str


EVENT_TYPES: dict[str, type["Event"]] = {}
"""Stored type name -> event class, for every event of every machine."""

UPCASTERS: dict[str, Upcaster] = {}
"""Retired type name -> how to read it."""


def register_upcaster(retired: str, upcast: Upcast, successor: str) -> None:
    """Keep the events of a retired type readable. `successor` may itself be retired.

    Raises `ValueError` when the name belongs to a living type or already has an upcaster.
    """
    if retired in EVENT_TYPES or retired in UPCASTERS:
        msg = f"the event type {retired!r} is " + ("in use" if retired in EVENT_TYPES else "upcast already")
        raise ValueError(msg)
    UPCASTERS[retired] = Upcaster(upcast, successor)


class Event(FrozenModel):
    """Something that happened.

    A concrete event says its stored name, `TYPE = "step.started.v1"`, its kind, and what of it is content.
    """

    TYPE: ClassVar[str] = ""
    KIND: ClassVar[EventKind]
    SPELLS_OUT: ClassVar[bool] = False
    """Whether the models inside it are stored with the fields that hold their defaults. Settings are: what held for a
    run must stand in its log, also when another default comes with a later version."""
    UPCASTS: ClassVar[Mapping[str, Upcast]] = {}
    """Retired type name -> what makes its payload one of this event."""

    @property
    def counts_as(self) -> EventKind:
        """The kind of this one event: that of its class, unless it depends on who wrote it."""
        return self.KIND

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register the stored type name.

        Raises `TypeError` for a second class with one name, for one without a kind, and for a field that is neither
        content nor state.
        """
        super().__pydantic_init_subclass__(**kwargs)
        name = cls.__dict__.get("TYPE")
        if name is None:
            return
        if name in EVENT_TYPES:
            msg = f"the event type {name!r} belongs to {EVENT_TYPES[name].__name__}; {cls.__name__} needs its own"
            raise TypeError(msg)
        if "KIND" not in cls.__dict__:
            # Without one a lost append would drop it, and nobody would miss it before it hurts.
            raise TypeError(f"the event {cls.__name__} ({name!r}) says no kind: give it a `KIND`")
        content_of(cls)
        EVENT_TYPES[name] = cls
        for retired, upcast in cls.__dict__.get("UPCASTS", {}).items():
            register_upcaster(retired, upcast, name)


_FACTS = frozenset({EventKind.WORLD, EventKind.FACT})


def is_fact(event: Event) -> bool:
    """Tell whether the event has happened, whatever came in meanwhile; then a lost append is repeated."""
    return event.counts_as in _FACTS


def is_world_fact(event: Event) -> bool:
    """Tell whether the event says what the outside world did, which nothing here can do again for free."""
    return event.counts_as is EventKind.WORLD


def begins_anew(event: Event) -> bool:
    """Tell whether nothing after the event has met the outside world, as long as the event is not stored.

    Such are a decision and the start of a step. What hooks did in such a step goes with the step, and they run again in
    the one that takes its place.
    """
    return event.counts_as is EventKind.ANEW
