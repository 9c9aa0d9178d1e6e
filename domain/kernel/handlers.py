"""Tables with one handler for each class of events. A missing handler is found by the types or at import.

The events are those of a log, or of a projection of it.
"""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args

C = TypeVar("C")
E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


class Handlers(Generic[C, P, R]):
    """A table of handlers. Each takes a context `C`, an event of its own class and arguments `P`, and returns `R`."""

    def __init__(self) -> None:
        # Python has no type for "a callable that takes an instance of its key"; `of` checks that for each pair.
        self.by_class: dict[type[Any], Callable[Concatenate[C, Any, P], R]] = {}

    def of(self, *kinds: type[E]) -> Callable[[Callable[Concatenate[C, E, P], R]], Callable[Concatenate[C, E, P], R]]:
        """Return a decorator that registers the handler of these classes. It raises `TypeError` for a second one."""

        def keep(handler: Callable[Concatenate[C, E, P], R]) -> Callable[Concatenate[C, E, P], R]:
            for kind in kinds:
                if kind in self.by_class:
                    raise TypeError(f"the event {kind.__name__} has two handlers")
                self.by_class[kind] = handler
            return handler

        return keep


def complete(events: UnionType, *parts: Handlers[C, P, R]) -> Mapping[type[Any], Callable[Concatenate[C, Any, P], R]]:
    """Return the handlers of all `parts` together, for exactly the classes of the union `events`.

    Raises `TypeError` when a class of the union has no handler or two, and for a handler of a class outside the union.
    """
    joined: dict[type[Any], Callable[Concatenate[C, Any, P], R]] = {}
    for part in parts:
        for kind, handler in part.by_class.items():
            if kind in joined:
                raise TypeError(f"the event {kind.__name__} has two handlers")
            joined[kind] = handler
    members = set(get_args(events))
    for kind in joined.keys() - members:
        raise TypeError(f"there is a handler of {kind.__name__}, which is no event of this machine")
    for kind in members - joined.keys():
        raise TypeError(f"the event {kind.__name__} has no handler")
    return joined
