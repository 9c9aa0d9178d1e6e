"""Tells workflows from agents, without the import of what is needed for workflows."""

import sys
from typing import TYPE_CHECKING, TypeGuard

from steptrail.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from steptrail.runtime.flow.graph_builder import GraphBuilder
    from steptrail.runtime.flow.workflow import BuiltWorkflow

__all__ = ["is_flow", "is_flow_builder", "refuse_of_a_flow", "refuse_of_an_agent"]


def is_flow(given: object) -> "TypeGuard[BuiltWorkflow]":
    """Tell whether a value is a built workflow. Who has one has imported its module."""
    module = sys.modules.get("steptrail.runtime.flow.workflow")
    return module is not None and isinstance(given, module.BuiltWorkflow)


def is_flow_builder(given: object) -> "TypeGuard[GraphBuilder]":
    """Tell whether a value is a workflow that is being written, and can be built."""
    module = sys.modules.get("steptrail.runtime.flow.graph_builder")
    return module is not None and isinstance(given, module.GraphBuilder)


def refuse_of_a_flow(**given: object) -> None:
    """Raise `ConfigurationError` for what only a workflow can be given, where an agent is run."""
    for name, value in given.items():
        if value:
            raise ConfigurationError(f"an agent is run without `{name}`: that is for workflows")


def refuse_of_an_agent(**given: object) -> None:
    """Raise `ConfigurationError` for what only an agent can be given, where a workflow is run."""
    for name, value in given.items():
        if value:
            raise ConfigurationError(f"a workflow is run without `{name}`: that is for agents")
