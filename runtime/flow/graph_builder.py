"""The graph of a workflow while it is written: nodes with their code, edges, and what is built of them."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

from steptrail.domain.base import full_form, made
from steptrail.domain.errors import ConfigurationError, InvalidSetting, InvalidWorkflow, NotStorable, shown
from steptrail.domain.flow.definition import EdgeWhen, FlowDefinition
from steptrail.domain.flow.diagnose import diagnose
from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.ids import is_node_id
from steptrail.domain.flow.kinds.port import NodeMeans
from steptrail.domain.flow.nodes import LlmRouterNode, MapNode, Node, NodeBase, ToolNode, WebhookNode, WorkingNode
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.resolving import WrittenEdge, entry_of, resolved_edges, resolved_nodes
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of, a_row, a_text, one_of
from steptrail.domain.storable import storable
from steptrail.runtime.agent.resources import checked_opener
from steptrail.runtime.agent.tool_port import wanted_by
from steptrail.runtime.flow.workflow import BuiltWorkflow, Code
from steptrail.runtime.flow.working import refuse_unsafe_cache

EdgeWhenName: TypeAlias = EdgeWhen | Literal["done", "success", "error"]
"""A member of `EdgeWhen`."""

_Functions: TypeAlias = Mapping[str, Callable[..., object]]


@contextmanager
def about(node_id: str) -> Generator[None, None, None]:
    """Say in every `ConfigurationError` which node it is about."""
    try:
        yield
    except InvalidSetting as error:
        raise ConfigurationError(f"node {node_id!r}: {error.problem}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"node {node_id!r}: {error}") from None


class GraphBuilder:
    """Collects the nodes and edges of a workflow. `Workflow` adds a method for each kind of node.

    `_means` are what the texts of nodes are checked with, which the public `Workflow` has from infrastructure.
    """

    _means: ClassVar[NodeMeans | None] = None

    def __init__(
        self,
        name: str,
        *,
        result: str | None = None,
        entry: str | Iterable[str] = (),
        options: RunOptions | None = None,
        description: str | None = None,
    ) -> None:
        if not a_text(name, "the name of a workflow").strip():
            raise ConfigurationError("a workflow needs a name")
        self._name, self._result, self._description = name.strip(), result, description
        self._entry = (entry,) if isinstance(entry, str) else a_row(entry, "entry")
        self._options = RunOptions() if options is None else a_kind_of(RunOptions, options, "`options`")
        self._nodes: list[Node] = []
        self._edges: list[WrittenEdge] = []
        self._code: dict[str, Code] = {}
        self._functions: dict[str, _Functions] = {}
        self._resources: Callable[[Any], AbstractAsyncContextManager[object]] | None = None

    def add(self, node: Node, code: Code | None = None, *, functions: _Functions | None = None) -> Self:
        """Add a node that is made already, with the code that it calls and the functions that its settings name."""
        a_kind_of(NodeBase, node, "what is added to a workflow")
        with about(node.id):
            if not is_node_id(node.id):
                raise ConfigurationError("an id is 1 to 64 letters, digits, _ or -, and begins with a letter or _")
            inner = node.node if isinstance(node, MapNode) else node
            if isinstance(inner, (*get_args(WorkingNode), LlmRouterNode)):
                if code is None and not isinstance(inner, WebhookNode):
                    raise ConfigurationError("it needs the code that it calls")
                refuse_unsafe_cache(inner)
        self._nodes.append(node)
        if code is not None:
            self._code[node.id] = code
        if functions:
            self._functions[node.id] = dict(functions)
        return self

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that were added, in their order."""
        return tuple(self._nodes)

    def edge(
        self, source: str | Iterable[str], *targets: str, when: EdgeWhenName | None = None, loop: bool = False
    ) -> Self:
        """Add an edge from each source to each target.

        `when` is the end of the source after which it is taken: `done` (a success, or a failure that was recorded),
        `success` or `error`. Without it an edge is taken when the source is done, or after a success alone where the
        source has an error edge. `loop` marks an edge that leads back.
        """
        ends = None if when is None else one_of(EdgeWhen, when, f"the edge from {source!r}", "the ends")
        if not targets:
            raise ConfigurationError(f"the edge from {source!r} leads nowhere")
        sources = (source,) if isinstance(source, str) else a_row(source, "the sources of an edge")
        for node in (*sources, *targets):
            a_text(node, "what an edge connects is the id of a node, which")
        self._edges += [WrittenEdge(each, target, ends, loop) for each in sources for target in targets]
        return self

    def chain(self, *nodes: str) -> Self:
        """Add an edge from each of the nodes to the next."""
        for node in nodes:
            a_text(node, "what a chain connects is the id of a node, which")
        self._edges += [WrittenEdge(*pair) for pair in pairwise(nodes)]
        return self

    def with_resources(self, opener: Callable[[Any], AbstractAsyncContextManager[object]]) -> Self:
        """Open things for each run, such as clients, which functions and tools read as `resources`.

        `opener` is called with the context of the run, or None, and returns an async context manager. It is entered in
        each process that goes on with the run, and left when that process is done with it. Nothing of it is stored.
        Raises `ConfigurationError` for anything that cannot be called so.
        """
        self._resources = checked_opener(opener)
        return self

    def build(self) -> BuiltWorkflow:
        """Return what can be run, with its `warnings`. Raises `InvalidWorkflow`, which lists all that is wrong."""
        flow, found = self.diagnosed()
        if any(each.severity == "error" for each in found):
            raise InvalidWorkflow(self._name, found)
        return replace(flow, warnings=found)

    def diagnosed(self) -> tuple[BuiltWorkflow, tuple[Diagnostic, ...]]:
        """Return a workflow, which cannot be run if an error is among what is wrong with it, and what is."""
        nodes, edges = resolved_nodes(self._nodes, self._edges), resolved_edges(self._edges)
        written = FlowDefinition(
            name=self._name,
            nodes=nodes,
            edges=edges,
            entry=self._entry or entry_of(nodes, edges),
            result=self._result,
            options=self._options,
            description=self._description,
        )
        try:
            # What people gave is copied and checked as it will be stored.
            definition = made(FlowDefinition, cast("dict[str, JsonValue]", storable(full_form(written))))
        except (NotStorable, ValueError) as error:
            raise ConfigurationError(f"workflow {shown(self._name)}: {error}") from None
        flow = BuiltWorkflow(
            definition=definition, code=dict(self._code), functions=dict(self._functions), resources=self._resources
        )
        return flow, (*diagnose(definition, self._means), *self._unopened())

    def _unopened(self) -> Iterator[Diagnostic]:
        """Yield the tools that read resources, where none are opened."""
        for place, node in enumerate(self._nodes if self._resources is None else ()):
            works = isinstance(node.node if isinstance(node, MapNode) else node, ToolNode)
            if works and wanted_by(self._code.get(node.id))[1] is not None:
                why = "its tool reads resources, and the workflow opens none"
                advice = "call `with_resources`, or name what opens them under `resources` in a file"
                yield fault("FL-116", f"nodes[{place}]", f"{node.id}: {why}", advice)
