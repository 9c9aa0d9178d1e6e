"""A workflow that can be run: what is recorded of it, and the code that its nodes call."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Union

from steptrail.domain.flow.definition import FlowDefinition, definition_text
from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.runtime.agent.resources import checked_opener
from steptrail.runtime.flow.functions import NodeFunction
from steptrail.runtime.kernel.given_code import digest_below

if TYPE_CHECKING:
    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.agent.tool_port import RunnableTool
    from steptrail.runtime.kernel.ports import ModelDriver

Code: TypeAlias = Union["RunnableTool", "ModelDriver", "AnyAgent", "BuiltWorkflow", NodeFunction]
"""The code that a node calls: a tool, a model, an agent, another workflow, or a function."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BuiltWorkflow:
    """A workflow that can be run. `Workflow.build` makes one. It has no state.

    `code` is what each node calls, by the id of the node; for a map it is what its inner node calls. `functions` are
    the functions that decide or merge in a node, by its id and by the name under which they are recorded. `resources`
    opens what is read as `NodeContext.resources`. `locator` is the text by which the command line found the workflow,
    and `use` those by which it found its code. `warnings` say what looks wrong with the definition.
    """

    definition: FlowDefinition
    code: Mapping[str, Code] = field(default_factory=dict[str, Code])
    functions: Mapping[str, Mapping[str, Callable[..., object]]] = field(
        default_factory=dict[str, Mapping[str, Callable[..., object]]]
    )
    resources: Callable[[Any], AbstractAsyncContextManager[object]] | None = None
    locator: str | None = None
    use: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        """Return its name and its nodes."""
        return f"<BuiltWorkflow {self.name!r}: {', '.join(node.id for node in self.definition.nodes)}>"

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.definition.name

    @cached_property
    def text(self) -> str:
        """The definition as it is recorded with each run."""
        return definition_text(self.definition)

    @cached_property
    def digest(self) -> str:
        """The digest of the text, and of the workflows that its nodes run. Equal workflows have the same."""
        return hashlib.sha256("\n".join(filter(None, [self.text, digest_below(self.code)])).encode()).hexdigest()[:32]

    def replace(self, *, resources: Callable[[Any], AbstractAsyncContextManager[object]]) -> Self:
        """Return the workflow with other resources, such as fakes for a test. Raises `ConfigurationError`."""
        return replace(self, resources=checked_opener(resources))
