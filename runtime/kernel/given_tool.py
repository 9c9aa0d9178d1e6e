"""The check that what a caller gives as a tool is one."""

from collections.abc import Iterable, Mapping
from inspect import isroutine

from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.tools import ToolSpec

__all__ = ["spec_of_tool"]


def spec_of_tool(given: object) -> ToolSpec:
    """Return the spec of `given`, which must be a tool. Raises `ConfigurationError` for anything else."""
    spec = getattr(given, "spec", None)
    if isinstance(spec, ToolSpec):
        return spec
    if isroutine(given):
        raise ConfigurationError(f"the function {function_name(given)} is not a tool; decorate it with `@tool`")
    kind = type(given).__name__
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        raise ConfigurationError(f"{kind} is not a tool; give each tool as an argument of its own")
    means = "`@tool` makes one of a function, `SubagentTool` of an agent, `FlowTool` of a workflow"
    raise ConfigurationError(f"{kind} is not a tool; {means}")
