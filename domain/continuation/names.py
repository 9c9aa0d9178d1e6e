"""How a criterion is called in the log.

What ships with Steptrail goes by its class name, so stored votes survive a move between modules. Anything else goes
by its own `name`, or else by `module.QualName`.
"""

import re

__all__ = ["criterion_name", "short_name"]

_SEPARATORS = re.compile(r"[.:\\]")


def criterion_name(criterion: object) -> str:
    """Return the name of a criterion, given the object or its class."""
    given: object = getattr(criterion, "name", None)
    if isinstance(given, str) and given:
        return given
    kind = criterion if isinstance(criterion, type) else type(criterion)
    return kind.__qualname__ if kind.__module__.startswith("steptrail.") else f"{kind.__module__}.{kind.__qualname__}"


def short_name(name: str) -> str:
    r"""Return the last part of a qualified name, whole; `.`, `:` and `\` separate parts."""
    return _SEPARATORS.split(name)[-1] or name
