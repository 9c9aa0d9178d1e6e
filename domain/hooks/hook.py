"""The protocol of a hook, and hooks made of functions."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from steptrail.domain.continuation.names import function_name
from steptrail.domain.hooks.state import HookState
from steptrail.domain.kernel.given import a_function

Next: TypeAlias = Callable[[HookState], HookState]
"""Marks a state as passed on, and returns it. The other hooks run even if a hook does not call it."""


@runtime_checkable
class Hook(Protocol):
    """Code of the user that runs at a named moment of a run.

    `handle` gets the state and returns it, changed only by the methods of the state. It may be async. If it raises, the
    exception becomes a vote that forbids to go on. The hook's name in the log is its `name` attribute, or else
    `module.QualName`.
    """

    def handle(self, state: HookState, next: Next, /) -> HookState | Awaitable[HookState]:  # noqa: A002 - the seed's word
        """Return the state, with the votes and changes of this hook. `next` passes it on."""
        ...


class CallableHook:
    """A hook made of a function `state -> state`, sync or async. Its name is that of the function.

    Raises `ConfigurationError` for what is no function.
    """

    def __init__(self, function: Callable[[HookState], HookState | Awaitable[HookState]], name: str = "") -> None:
        self._function = a_function(function, "what a CallableHook calls", "the state")
        self.name = name or function_name(function)

    def handle(self, state: HookState, next: Next, /) -> HookState | Awaitable[HookState]:  # noqa: A002
        """Call the function and pass on the state that it returns."""
        result = self._function(state)
        return next(result) if isinstance(result, HookState) else result
