"""Tells workflows from agents, without the import of what is needed for workflows."""

import sys
from typing import TYPE_CHECKING, TypeGuard

from steptrail.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from steptrail.runtime.flow.workflow import BuiltWorkflow

__all__ = ["is_flow", "refuse_of_a_flow"]


def is_flow(given: object) -> "TypeGuard[BuiltWorkflow]":
    """Tell whether a value is a built workflow. Who has one has imported its module."""
    module = sys.modules.get("steptrail.runtime.flow.workflow")
    return module is not None and isinstance(given, module.BuiltWorkflow)


def refuse_of_a_flow(**given: object) -> None:
    """Raise `ConfigurationError` for what only a workflow can be given, where an agent is run."""
    for name, value in given.items():
        if value:
            raise ConfigurationError(f"an agent is run without `{name}`: that is for workflows")
