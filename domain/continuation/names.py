"""The names of criteria in the log.

A built-in criterion has the name of its class, so that stored votes survive its move to another module. Any other
criterion has its own `name`, or else `module.QualName`. Built-in criteria reserve their names: a vote of another
criterion that is called `StepsLimit` would mislead people.
"""

import re

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.module_names import module_of

_reserved = set[str]()
_SEPARATORS = re.compile(r"[.:\\]")


def reserve(name: str) -> str:
    """Reserve a name for a built-in criterion, and return it. No criterion of a service may have it."""
    _reserved.add(name)
    return name


def is_reserved(name: str) -> bool:
    """Tell whether a name is reserved for a built-in criterion."""
    return name in _reserved


def criterion_name(criterion: object) -> str:
    """Return the name of a criterion, given the object or its class."""
    given: object = getattr(criterion, "name", None)
    if isinstance(given, str) and given:
        return given
    kind = criterion if isinstance(criterion, type) else type(criterion)
    return kind.__qualname__ if _ships(kind) else f"{module_of(kind)}.{kind.__qualname__}"


def function_name(function: object) -> str:
    """Return the name of a function that a service gave: `module.QualName`, or as of a criterion where it has none."""
    name = getattr(function, "__qualname__", None)
    return f"{module_of(function)}.{name}" if isinstance(name, str) else criterion_name(function)


def own_name(criterion: object) -> str:
    """Return the name of a criterion. Raises `ConfigurationError` for a service's criterion with a reserved name."""
    name = criterion_name(criterion)
    return name if _ships(type(criterion)) else chosen_name(name)


def chosen_name(name: str, default: str = "") -> str:
    """Return a name that a service chose. Raises `ConfigurationError` if it is reserved and not the `default`."""
    if is_reserved(name) and name != default:
        raise ConfigurationError(f"no criterion of yours can be called {name!r}: that is one of Steptrail's names")
    return name


def _ships(kind: type) -> bool:
    return kind.__module__.startswith("steptrail.")


def short_name(name: str) -> str:
    r"""Return the last part of a qualified name. `.`, `:` and `\` separate the parts."""
    return _SEPARATORS.split(name)[-1] or name
