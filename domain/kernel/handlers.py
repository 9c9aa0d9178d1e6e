"""One handler for each class of events: tied to it by type, and all of them there when the module is imported.

Events are those of a log, or of a projection of it.
"""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args

__all__ = ["Handlers", "complete"]

C = TypeVar("C")
E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


class Handlers(Generic[C, P, R]):
    """Handlers of events. Each takes a context `C`, an event of its own class, and `P`, and returns `R`."""

    def __init__(self) -> None:
        # Python has no type for "a callable that takes an instance of its key"; `of` holds each pair to that.
        self._by_class: dict[type[Any], Callable[Concatenate[C, Any, P], R]] = {}

    def of(self, *kinds: type[E]) -> Callable[[Callable[Concatenate[C, E, P], R]], Callable[Concatenate[C, E, P], R]]:
        """Return the decorator of the one handler of events of these classes. Raises `TypeError` for a second."""

        def keep(handler: Callable[Concatenate[C, E, P], R]) -> Callable[Concatenate[C, E, P], R]:
            for kind in kinds:
                if kind in self._by_class:
                    raise TypeError(f"the event {kind.__name__} has two handlers")
                self._by_class[kind] = handler
            return handler

        return keep

    def by_class(self) -> Mapping[type[Any], Callable[Concatenate[C, Any, P], R]]:
        """Return the handlers, each under the class of its events."""
        return self._by_class


def complete(events: UnionType, *parts: Handlers[C, P, R]) -> Mapping[type[Any], Callable[Concatenate[C, Any, P], R]]:
    """Return the handlers of all `parts` together, for exactly the classes of the union `events`.

    Raises `TypeError` when a class has no handler, two of them, or is none of the union's.
    """
    joined: dict[type[Any], Callable[Concatenate[C, Any, P], R]] = {}
    for part in parts:
        for kind, handler in part.by_class().items():
            if kind in joined:
                raise TypeError(f"the event {kind.__name__} has two handlers")
            joined[kind] = handler
    members = set(get_args(events))
    for kind in joined.keys() - members:
        raise TypeError(f"there is a handler of {kind.__name__}, which is no event of this machine")
    for kind in members - joined.keys():
        raise TypeError(f"the event {kind.__name__} has no handler")
    return joined
