"""How a criterion is called in the log.

What ships with Steptrail goes by its class name, so stored votes survive a move between modules. Anything else goes
by its own `name`, or else by `module.QualName`. The names of what ships are reserved: a trace in which somebody else is
called `StepsLimit` would mislead whoever reads it.
"""

import re

from steptrail.domain.errors import ConfigurationError

__all__ = ["RESERVED_NAMES", "chosen_name", "criterion_name", "own_name", "short_name"]

RESERVED_NAMES = frozenset(
    {
        "AnswerComplete",
        "CallableCriterion",
        "ContinuationCriteria",
        "CostLimit",
        "CrashLoopLimit",
        "CumulativeExecutionTimeLimit",
        "ErrorPolicyCriterion",
        "ErrorPresenceCheck",
        "ExecutionTimeLimit",
        "FinishReasonCheck",
        "InputTokenLimit",
        "OutputTokenLimit",
        "PendingInput",
        "ResponseContentCheck",
        "RetryLimit",
        "Shadow",
        "StepsLimit",
        "TokenUsageLimit",
        "ToolCallLimit",
        "ToolCallPresenceCheck",
        "UserStop",
        "aggregate",
    }
)
"""What no criterion of a service may be called: every criterion that ships, and who resolves what nobody decided."""

_SEPARATORS = re.compile(r"[.:\\]")


def criterion_name(criterion: object) -> str:
    """Return the name of a criterion, given the object or its class."""
    given: object = getattr(criterion, "name", None)
    if isinstance(given, str) and given:
        return given
    kind = criterion if isinstance(criterion, type) else type(criterion)
    return kind.__qualname__ if _ships(kind) else f"{kind.__module__}.{kind.__qualname__}"


def own_name(criterion: object) -> str:
    """Return the name of a criterion; raise `ConfigurationError` when it is of a service and has a reserved one."""
    name = criterion_name(criterion)
    return name if _ships(type(criterion)) else chosen_name(name)


def chosen_name(name: str, default: str = "") -> str:
    """Return a name that a service chose; raise `ConfigurationError` when it is reserved and not the `default`."""
    if name in RESERVED_NAMES and name != default:
        raise ConfigurationError(f"no criterion of yours can be called {name!r}: that is one of Steptrail's names")
    return name


def _ships(kind: type) -> bool:
    return kind.__module__.startswith("steptrail.")


def short_name(name: str) -> str:
    r"""Return the last part of a qualified name, whole; `.`, `:` and `\` separate parts."""
    return _SEPARATORS.split(name)[-1] or name
