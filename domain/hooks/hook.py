"""The protocol of a hook, and hooks made of functions."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from steptrail.domain.hooks.state import HookState

__all__ = ["CallableHook", "Hook", "Next"]

Next: TypeAlias = Callable[[HookState], HookState]
"""Marks a state as passed on and returns it. A hook that forgets it does not keep the others from running."""


@runtime_checkable
class Hook(Protocol):
    """Code of the service that runs at a named point.

    `handle` gets the state and returns it, changed only by its own methods; it may be async. What it raises becomes a
    vote that forbids going on. Its name in the log is its `name` attribute, else `module.QualName`.
    """

    def handle(self, state: HookState, next: Next, /) -> HookState | Awaitable[HookState]:  # noqa: A002 - the seed's word
        """Look at the state, vote, change what may be changed now, and pass it on."""
        ...


class CallableHook:
    """A function `state -> state` as a hook, sync or async; its name is the function's."""

    def __init__(self, function: Callable[[HookState], HookState | Awaitable[HookState]], name: str = "") -> None:
        self._function = function
        self.name = name or f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    def handle(self, state: HookState, next: Next, /) -> HookState | Awaitable[HookState]:  # noqa: A002
        """Call the function and pass on what it returns."""
        result = self._function(state)
        return next(result) if isinstance(result, HookState) else result
