"""Matchers decide from the state and the hook type whether a hook runs."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Protocol

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType, hook_type_of
from steptrail.domain.kernel.given import a_function, a_plain_function, a_row, a_text


class HookMatcher(Protocol):
    """Decides whether a hook runs now."""

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return whether the hook runs."""
        ...


class EventTypeMatcher:
    """Matches one or several hook types. Raises `ConfigurationError` for one that there is not."""

    def __init__(self, *hook_types: HookType) -> None:
        self._types = frozenset(map(hook_type_of, hook_types))

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return whether the hook type is one of them."""
        return hook_type in self._types


class ToolNameMatcher:
    """Matches the tool of a tool hook by a shell pattern (`fnmatch.fnmatchcase`); false for other hooks."""

    def __init__(self, pattern: str) -> None:
        self._pattern = a_text(pattern, "the pattern of a ToolNameMatcher")

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return whether the current tool's name fits the pattern."""
        name = _tool_name(state, hook_type)
        return name is not None and fnmatchcase(name, self._pattern)


class ToolNameRegexMatcher:
    """Matches the tool of a tool hook by a regular expression, anywhere in its name; false for other hooks.

    Raises `ConfigurationError` for an invalid pattern.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(a_text(pattern, "the pattern of a ToolNameRegexMatcher"))
        except re.error as error:
            raise ConfigurationError(f"{pattern!r} is not a regular expression: {error}") from None

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return whether the pattern is found in the current tool's name."""
        name = _tool_name(state, hook_type)
        return name is not None and self._pattern.search(name) is not None


class CallableMatcher:
    """Matches when a function of the state and the hook type returns True."""

    def __init__(self, predicate: Callable[[HookState, HookType], bool]) -> None:
        self._predicate = a_plain_function(predicate, "what a CallableMatcher asks", "the state", "the type")

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return the result of the function."""
        return self._predicate(state, hook_type)


class CompositeMatcher:
    """Combines several matchers: all must match (`and_`), or one of them (`or_`). Without any matcher, it matches."""

    def __init__(self, combine: Callable[[list[bool]], bool], matchers: tuple[HookMatcher, ...]) -> None:
        self._combine = a_function(combine, "what combines matchers", "a list")
        self._matchers = a_row(matchers, "matchers")
        refuse_other_than_matchers(*self._matchers)

    @classmethod
    def and_(cls, *matchers: HookMatcher) -> "CompositeMatcher":
        """Return a matcher that needs all of them."""
        return cls(all, matchers)

    @classmethod
    def or_(cls, *matchers: HookMatcher) -> "CompositeMatcher":
        """Return a matcher that needs one of them."""
        return cls(any, matchers)

    def matches(self, state: HookState, hook_type: HookType, /) -> bool:
        """Return the combined result of the matchers."""
        return not self._matchers or self._combine([m.matches(state, hook_type) for m in self._matchers])


def refuse_other_than_matchers(*given: object) -> None:
    """Raise `ConfigurationError` for an object that is no matcher."""
    for matcher in given:
        if isinstance(matcher, type) or not callable(getattr(matcher, "matches", None)):
            msg = f'{matcher!r} is not a matcher: give one of `steptrail.hooks`, such as `ToolNameMatcher("read_*")`'
            raise ConfigurationError(msg)


def _tool_name(state: HookState, hook_type: HookType) -> str | None:
    if not hook_type.is_tool_event():
        return None
    current = state.current_execution
    if current.tool_call is not None:
        return current.tool_call.name
    return current.tool_execution.name if current.tool_execution is not None else None
