"""The ids of the streams of workflows, of their executions and of the effects of their nodes."""

import re

from steptrail.domain.kernel.names import checked_name

STREAM_PREFIX = "flow:"
"""The beginning of the id of every stream that holds the runs of a workflow."""

_NODE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def is_node_id(text: str) -> bool:
    """Tell whether a text may be the id of a node. It begins with no digit, so no effect id can be an agent's."""
    return _NODE.fullmatch(text) is not None


def checked_flow_id(text: str) -> str:
    """Return an id that a caller chose. Raises `ConfigurationError` unless it is a name; see `checked_name`."""
    return checked_name(text, "the id of a run of a workflow")


def flow_stream(flow_id: str) -> str:
    """Return the id of the stream that holds the runs of this id."""
    return STREAM_PREFIX + flow_id


def execution_id(flow_id: str, ordinal: int) -> str:
    """Return the id of execution number `ordinal`, from 1."""
    return f"{flow_id}:{ordinal}"


def effect_id(execution: str, node: str, visit: int, item: int | None = None) -> str:
    """Return the id of what a visit of a node does in the world, or of what one item of a map does.

    `execution` is the one in which the visit was opened, so a retry of the run keeps the id. It is the same over tries,
    crashes and machines: the other side can take it as an idempotency key.
    """
    return f"{execution}:{node}:{visit}" if item is None else f"{execution}:{node}:{visit}:{item}"


def node_asked_in(request: str) -> str:
    """Return the id of the node that a request is of; a text that is no id of a request is returned as it is."""
    parts = request.split(":")
    return parts[2] if len(parts) > 3 else request


def task_asked_in(request: str) -> tuple[str, int, int | None]:
    """Return the node, the visit and the item that a request is of. Raises `ValueError` for what is no id of one."""
    _, _, node, visit, *rest = request.split(":")
    return node, int(visit), int(rest[0]) if rest and rest[0].isdigit() else None
