"""The view that a node has of the run in which it is visited."""

from dataclasses import replace

from steptrail.domain.flow.concluding import enabled
from steptrail.domain.flow.files import form_of
from steptrail.domain.flow.fold import RunFold, VisitFold
from steptrail.domain.flow.kinds.merging import Branch
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import files_shown, filled
from steptrail.domain.flow.nodes import MapNode, Node
from steptrail.domain.flow.texts import TEMPLATES
from steptrail.domain.flow.views import View, changed_apart, sources
from steptrail.domain.json_value import JsonValue


def seen_by(run: RunFold, visit: VisitFold, item: int | None = None) -> Seen:
    """Return what a visit of a node sees, and which item of the list of a map it is about."""
    node, seen = run.node(visit.node), seen_in(run, visit.view)
    value = None if item is None or not isinstance(node, MapNode) else seen.item_at(node.over, item)
    successors = tuple(run.graph.edges[edge].target for edge in enabled(run.graph, node))
    return replace(seen, item=value, index=item, successors=successors)


def given_below(run: RunFold, visit: VisitFold, item: int | None) -> JsonValue:
    """Return what a visit, or an item of a map, gives to the stream that it runs; None for what it cannot fill in."""
    node, seen = run.node(visit.node, item), seen_by(run, visit, item)
    templates = [getattr(node, name) for name in TEMPLATES.get(type(node), ())]
    try:
        return [filled(templates, seen), *map(form_of, files_shown(templates, seen))]
    except NodeFault:
        return None


def items_seen(run: RunFold, node: Node, view: View) -> int | None:
    """Return the length of the list that a map would see in a view; None for no list, and another node."""
    listed = seen_in(run, view).listed(node.over) if isinstance(node, MapNode) else None
    return None if listed is None else len(listed)


def branches_of(run: RunFold, visit: VisitFold) -> tuple[Branch, ...]:
    """Return the branches that meet in a visit, in the order of their edges."""
    nodes = {number: run.graph.edges[edge].source for edge, number in reversed(visit.inputs) if edge >= 0}
    numbers = sources(visit.inputs)
    changed = changed_apart(numbers, run.views, run.ended)
    return tuple(
        Branch(nodes.get(number, "start"), number, seen_in(run, run.views[number]), keys)
        for number, keys in zip(numbers, changed, strict=True)
    )


def seen_in(run: RunFold, view: View) -> Seen:
    """Return what is seen in a view."""
    return Seen(
        input=run.started.input,
        vars=view.vars,
        messages=view.messages,
        artifacts=view.artifacts,
        errors=view.errors,
        files=run.files,
        trace={"run_id": run.id.rpartition(":")[0], "execution_id": run.id, "started": run.started_at},
    )
