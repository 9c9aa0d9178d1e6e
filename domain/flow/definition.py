"""A workflow as it is recorded with each run of it: its nodes, the edges between them, and its settings."""

from enum import StrEnum

import msgspec

from steptrail.domain.base import Value, reader_of
from steptrail.domain.flow.nodes import Node
from steptrail.domain.flow.options import RunOptions

FORMAT = "flow/v1"


class EdgeWhen(StrEnum):
    """The end of a node after which an edge is taken."""

    DONE = "done"
    """After a success, and after a failure that was recorded."""
    SUCCESS = "success"
    ERROR = "error"
    """After a failure that was recorded."""


class Edge(Value, frozen=True, kw_only=True):
    """From one node to another. `loop` marks an edge that leads back: it closes a cycle."""

    source: str
    target: str
    when: EdgeWhen = EdgeWhen.DONE
    loop: bool = False


class FlowDefinition(Value, frozen=True, kw_only=True):
    """A workflow. A run begins at the nodes of `entry`, and has the settings of `options` unless it brings its own.

    `result` is the path of the variable that is the output of a run; None for the output of the node that ended its
    branch last, by the order of `nodes`.
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    entry: tuple[str, ...] = ()
    result: str | None = None
    options: RunOptions = RunOptions()
    description: str | None = None


_read = reader_of(FlowDefinition)


def definition_text(definition: FlowDefinition) -> str:
    """Return the recorded form of a workflow: one text, the same for equal workflows."""
    return msgspec.json.encode(definition, order="deterministic").decode()


def read_definition(text: str) -> FlowDefinition:
    """Return the workflow that `definition_text` wrote. Raises `ValueError` for any other text."""
    return _read(text)


_WHOLE = ("edges", "name", "entry", "result", "options")


def changes_between(recorded: FlowDefinition, brought: FlowDefinition) -> tuple[str, ...]:
    """Return the names of what differs: `+id` for a new node, `-id` for one that is gone, `id` for one that is changed.

    The parts of the workflow as a whole, such as its edges and its name, come after the nodes.

    A run goes on as it was recorded, whatever differs. Only what a node calls comes from the worker.
    """
    old, new = ({node.id: node for node in each.nodes} for each in (recorded, brought))
    changed = [node for node in old if node in new and old[node] != new[node]]
    named = [
        *(f"-{node}" for node in old if node not in new),
        *(f"+{node}" for node in new if node not in old),
        *changed,
    ]
    named += [each for each in _WHOLE if getattr(recorded, each) != getattr(brought, each)]
    return tuple(named)
