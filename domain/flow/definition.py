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
