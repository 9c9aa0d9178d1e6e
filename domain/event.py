"""The base of every event, and the registry of stored type names.

An event is a fact in the past tense. Its `TYPE` and its field names are the storage format: renaming a class is free,
renaming either of the other two needs an upcaster and a stored sample. Ids, version and time belong to the record
around the event, so tests compare plain events.
"""

from typing import Any, ClassVar

from steptrail.domain.base import FrozenModel

__all__ = ["EVENT_TYPES", "Event"]

EVENT_TYPES: dict[str, type["Event"]] = {}
"""Stored type name -> event class, for every event of every machine."""


class Event(FrozenModel):
    """Something that happened. A concrete event chooses its stored name: `TYPE = "step.started.v1"`."""

    TYPE: ClassVar[str] = ""
    SPELLS_OUT: ClassVar[bool] = False
    """Whether the models inside it are stored with the fields that hold their defaults. Settings are: what held for a
    run must stand in its log, also when another default comes with a later version."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register the stored type name; two classes with one name are a programming error."""
        super().__pydantic_init_subclass__(**kwargs)
        name = cls.__dict__.get("TYPE")
        if name is None:
            return
        if name in EVENT_TYPES:
            msg = f"the event type {name!r} belongs to {EVENT_TYPES[name].__name__}; {cls.__name__} needs its own"
            raise TypeError(msg)
        EVENT_TYPES[name] = cls
