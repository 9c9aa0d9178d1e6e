"""Checks that the tools of an agent find the context and the resources that they name in their annotations."""

from typing import Any

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.agent.agent import AnyAgent

_ANYTHING = (object, Any, None, type(None))


def refuse_other_means(agent: AnyAgent) -> None:
    """Raise `ConfigurationError` for a tool that wants another context than the agent's, or resources it has not."""
    for name, tool in agent.tools.items():
        wanted: tuple[object, ...] = getattr(tool, "context_types", ())
        data, resources, *_ = (*wanted, object, object)
        said = f"tool {name!r} of agent {agent.name!r}"
        if resources not in _ANYTHING and agent.resources is None:
            raise ConfigurationError(f"{said} reads resources, and the agent opens none: call `with_resources`")
        if data in _ANYTHING:
            continue
        if agent.context is None:
            raise ConfigurationError(
                f"{said} reads a {_name(data)}, and the agent is told nothing: call `with_context`"
            )
        given = agent.context.kind
        if isinstance(data, type) and isinstance(given, type) and not issubclass(given, data):
            raise ConfigurationError(f"{said} reads a {_name(data)}, and the agent is told a {_name(given)}")


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
