"""Everything that is wrong with a definition, found at once and said in the order of the definition.

    GR-001  a name that no node has                  FL-101  a route to a node to which no edge leads
    GR-002  a node that cannot run (warning)         FL-102  nodes that write one variable side by side (warning)
    GR-004  a cycle that is not said to be a loop    FL-103  an output under a reserved name
    GR-005  two nodes with one id                    FL-104  an error edge that is never taken
    GR-007  an unknown entry                         FL-107  waits that are longer than the timeout (warning)
    CN-001  an edge that is never chosen (warning)   FL-108  a loop edge without a loop
    CN-003  a choice without a default (warning)     FL-109  no nodes
    CN-005  a case with the name of the default
    CN-006  a choice between nothing                 FL-106  an expression that does not parse
    FL-110  a default that is no answer              FL-111  a template that cannot be filled in
    FL-112  a path that begins with no known word    FL-113  a schema that is none
    FL-114  a pattern that is none                   FL-115  what needs a package that is not there
    FL-116  a tool that reads what is not opened

What shows only in the file, or with the code at hand, is found where these are read. A word that only looks unknown is
a warning: the run may bring it.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain

from steptrail.domain.flow import nodes
from steptrail.domain.flow.choices import route_faults
from steptrail.domain.flow.definition import Edge, EdgeWhen, FlowDefinition
from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.kinds.port import NodeMeans
from steptrail.domain.flow.kinds.seen import ROOTS
from steptrail.domain.flow.kinds.templates import is_path
from steptrail.domain.flow.kinds.values import text_of
from steptrail.domain.flow.policies import OnError
from steptrail.domain.flow.side_by_side import written_side_by_side
from steptrail.domain.flow.texts import text_faults

__all__ = ["Diagnostic", "diagnose", "diagnose_texts"]

_PLACE = re.compile(r"(\w+)(?:\[(\d+)\])?")
_BILLED = (nodes.AgentNode, nodes.FlowNode, nodes.LlmNode, nodes.LlmRouterNode)
_MOST_NAMED = 8
_ALIKE = 0.75
"""How alike the name of a result is to that of a variable that it is taken for a misspelt one."""


def diagnose(definition: FlowDefinition, means: NodeMeans | None = None) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a definition, errors and warnings. `line` and `column` are None.

    Without `means` the texts of nodes are not looked at.
    """
    found = [*_of_names(definition), *_of_the_result(definition), *_of_nodes(definition), *_of_edges(definition)]
    found += [] if means is None else diagnose_texts(enumerate(definition.nodes), means)
    if not any(each.code in {"GR-001", "GR-004", "GR-005", "GR-007", "FL-109"} for each in found):
        found += _of_ways(definition)
    return tuple(sorted(found, key=_order))


def diagnose_texts(placed: Iterable[tuple[int, nodes.Node]], means: NodeMeans) -> Iterator[Diagnostic]:
    """Yield what is wrong with the texts of nodes, each given with its number, whatever leads from one to another."""
    listed = [*placed]
    written = _written(node for _, node in listed)
    for place, node in listed:
        yield from text_faults(node, f"nodes[{place}]", written, means)


def _written(given: Iterable[nodes.Node]) -> set[str]:
    return {key for node in given for key in (node.output, *_written_beside(node)) if key is not None}


def _of_the_result(definition: FlowDefinition) -> Iterator[Diagnostic]:
    """Yield what is wrong with the name of the result. A function may write a variable that no node names."""
    said, written = definition.result, _written(definition.nodes)
    if said is None or (root := said.removeprefix("vars.").partition(".")[0]) in written:
        return
    if not is_path(said):
        why = f"the result is a path, and no template: {said!r}"
        yield fault("FL-111", "result", why, "say a path such as `receipt.id`, without braces")
        return
    inner = (node.node if isinstance(node, nodes.MapNode) else node for node in definition.nodes)
    may_be_written = any(isinstance(node, nodes.FunctionNode) for node in inner)
    near = get_close_matches(root, written, 1, _ALIKE)
    advice = f"did you mean {near[0]!r}?" if near else "name the output of a node, or leave it out"
    yield fault("FL-112", "result", f"no node writes {root!r}", advice, is_warning=may_be_written or not near)


def _order(diagnostic: Diagnostic) -> tuple[int, int]:
    place = _PLACE.match(diagnostic.path)
    name, number = place.groups() if place is not None else ("", None)
    fields = FlowDefinition.__struct_fields__
    return fields.index(name) if name in fields else len(fields), int(number or 0)


def _of_names(definition: FlowDefinition) -> Iterator[Diagnostic]:
    known: set[str] = set()
    if not definition.nodes:
        yield fault("FL-109", "nodes", "there are no nodes", "add the first one")
    for place, node in enumerate(definition.nodes):
        if node.id in known:
            yield fault(
                "GR-005", f"nodes[{place}].id", f"two nodes are called {node.id!r}", "call one of them otherwise"
            )
        known.add(node.id)
    for place, edge in enumerate(definition.edges):
        for end, name in (("source", edge.source), ("target", edge.target)):
            if name not in known:
                yield _unknown("GR-001", f"edges[{place}].{end}", name, f"the edge {edge.source} > {edge.target}: ")
    for place, name in enumerate(definition.entry):
        if name not in known:
            yield _unknown("GR-007", f"entry[{place}]", name)
    for setting in ("pause_before", "pause_after"):
        for place, name in enumerate(getattr(definition.options, setting)):
            if name not in known and name != "*":
                yield _unknown("GR-001", f"options.{setting}[{place}]", name)


def _unknown(code: str, path: str, name: str, place: str = "") -> Diagnostic:
    return fault(code, path, f"{place}no node is called {name!r}", "name a node, or add this one")


def _of_nodes(definition: FlowDefinition) -> Iterator[Diagnostic]:
    successors: dict[str, list[str]] = {}
    for edge in definition.edges:
        if edge.when is not EdgeWhen.ERROR:
            successors.setdefault(edge.source, []).append(edge.target)
    beside = {name: node for node in definition.nodes for name in _written_beside(node)}
    for place, node in enumerate(definition.nodes):
        path = f"nodes[{place}]"
        yield from route_faults(node, path, successors.get(node.id, ()))
        yield from _of_output(node, f"{path}.output", beside)
        inner = node.node if isinstance(node, nodes.MapNode) else node
        if inner.timeout is not None and (waits := _waits(inner)) >= inner.timeout:
            yield fault(
                "FL-107",
                f"{path}.node.retry" if inner is not node else f"{path}.retry",
                f"its {inner.retry.max_attempts} tries wait {text_of(round(waits, 3))} s in all, "
                f"and its timeout is {text_of(inner.timeout)} s",
                "shorten `backoff`, set `max_delay`, or raise `timeout`",
                is_warning=True,
            )


def _of_output(node: nodes.Node, path: str, beside: dict[str, nodes.Node]) -> Iterator[Diagnostic]:
    if node.output is None:
        return
    if node.output in ROOTS:
        why = f"{node.output!r} is the first word of paths, so a variable of this name cannot be read"
        yield fault("FL-103", path, why, "choose another name")
    elif (other := beside.get(node.output)) is not None:
        why = f"{node.output!r} is what {other.id!r} writes beside its own output {other.output!r}"
        yield fault("FL-103", path, why, "choose another name")


def _written_beside(node: nodes.Node) -> Iterator[str]:
    """Yield the variables that a node writes beside its output."""
    if node.output is not None:
        yield f"{node.output}_error"
        if isinstance(node, _BILLED):
            yield f"{node.output}_usage"
        if isinstance(node, nodes.HumanNode):
            yield f"{node.output}_approved"


def _waits(node: nodes.Node) -> float:
    """Return the seconds between all tries of a node."""
    retry = node.retry
    waits = retry.max_attempts - 1
    if retry.max_delay is None or retry.backoff * waits <= retry.max_delay:
        return retry.backoff * waits * (waits + 1) / 2
    rising = int(retry.max_delay / retry.backoff)
    return retry.backoff * rising * (rising + 1) / 2 + retry.max_delay * (waits - rising)


def _of_edges(definition: FlowDefinition) -> Iterator[Diagnostic]:
    by_name = {node.id: node for node in definition.nodes}
    for place, edge in enumerate(definition.edges):
        source = by_name.get(edge.source)
        if source is None or edge.when is not EdgeWhen.ERROR:
            continue
        if source.on_error is OnError.FAIL:
            why = f"it is never taken: {source.id!r} fails the run, because of on_error='fail'"
            yield fault("FL-104", f"edges[{place}]", why, "remove the edge, or `on_error`")
        elif isinstance(source, nodes.NoopNode):
            why = f"it is never taken: {source.id!r} cannot fail"
            yield fault("FL-104", f"edges[{place}]", why, "remove the edge", is_warning=True)
    for way, place in _cycles(definition):
        shown = way if len(way) <= _MOST_NAMED else [*way[: _MOST_NAMED - 2], "…", *way[-2:]]
        why = f"{' > '.join(shown)} is a cycle"
        yield fault("GR-004", f"edges[{place}]", why, "say `loop` of the edge that leads back")


def _cycles(definition: FlowDefinition) -> Iterator[tuple[list[str], int]]:
    """Yield each cycle that an edge closes which is no loop edge: the nodes of it, and the number of that edge."""
    after: dict[str, list[tuple[int, Edge]]] = {node.id: [] for node in definition.nodes}
    for place, edge in enumerate(definition.edges):
        if not edge.loop and edge.source in after and edge.target in after:
            after[edge.source].append((place, edge))
    entered = {edge.target for _, edge in chain.from_iterable(after.values())}
    seen: set[str] = set()
    for start in sorted(after, key=lambda name: name in entered):
        if start in seen:
            continue
        seen.add(start)
        way, left = {start: None}, [iter(after[start])]
        while left:
            for place, edge in left[-1]:
                if edge.target in way:
                    names = list(way)
                    yield [*names[names.index(edge.target) :], edge.target], place
                elif edge.target not in seen:
                    seen.add(edge.target)
                    way[edge.target] = None
                    left.append(iter(after[edge.target]))
                    break
            else:
                left.pop()
                way.popitem()


def _of_ways(definition: FlowDefinition) -> Iterator[Diagnostic]:
    graph = Graph(definition)
    reached = graph.reached(graph.entry)
    for node in range(len(graph.nodes)):
        if not graph.incoming[node] and not graph.outgoing[node] and len(graph.nodes) > 1:
            why = f"{graph.nodes[node].id!r} has no edges"
            yield fault("GR-002", f"nodes[{node}]", why, "add an edge, or remove the node", is_warning=True)
        elif node not in reached:
            why = f"{graph.nodes[node].id!r} never runs: no way leads to it from where a run begins"
            yield fault("GR-002", f"nodes[{node}]", why, "add an edge to it, or name it in `entry`", is_warning=True)
    for place, edge in enumerate(graph.edges):
        if edge.loop and not graph.loops[graph.targets[place]].nodes >> graph.sources[place] & 1:
            why = f"no way leads from {edge.target!r} to {edge.source!r}, so this edge closes no loop"
            yield fault("FL-108", f"edges[{place}]", why, "remove `loop`, or turn the edge round")
    yield from written_side_by_side(graph)
