"""Tells workflows from agents, and each from what is neither, without the import of what is needed for workflows."""

import sys
from typing import TYPE_CHECKING, TypeGuard

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.agent import given as agents

if TYPE_CHECKING:
    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.flow.graph_builder import GraphBuilder
    from steptrail.runtime.flow.workflow import BuiltWorkflow


def is_flow(given: object) -> "TypeGuard[BuiltWorkflow]":
    """Tell whether a value is a built workflow. Who has one has imported its module."""
    module = sys.modules.get("steptrail.runtime.flow.workflow")
    return module is not None and isinstance(given, module.BuiltWorkflow)


def is_flow_builder(given: object) -> "TypeGuard[GraphBuilder]":
    """Tell whether a value is a workflow that is being written, and can be built."""
    module = sys.modules.get("steptrail.runtime.flow.graph_builder")
    return module is not None and isinstance(given, module.GraphBuilder)


def an_agent(given: object) -> "AnyAgent":
    """Return `given`, which must be an agent. Raises `ConfigurationError`, which says of a workflow what to do."""
    if is_flow_builder(given):
        kind = type(given).__name__
        raise ConfigurationError(f"what runs is a built workflow, not {kind}: `.build()` makes one of it")
    if is_flow(given):
        raise ConfigurationError("what runs in a session is an Agent: `trail.flow(id)` has the runs of workflows")
    return agents.an_agent(given)
