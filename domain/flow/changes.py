"""Names what differs between the recorded workflow and the one that a worker brings."""

from steptrail.domain.flow.definition import FlowDefinition

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
