"""The code that a run may still call, and that another version of its workflow does not have."""

from collections.abc import Callable, Mapping, Sequence

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.failing import failure_of, stream_kind, working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.nodes import LlmRouterNode, MergeNode, Node, ToolNode, WebhookNode, WorkingNode
from steptrail.domain.flow.task import Task
from steptrail.domain.flow.texts import expressions_of
from steptrail.domain.module_names import module_of


def lacking(
    run: RunFold, brought: FlowDefinition, functions: Mapping[str, Mapping[str, Callable[..., object]]]
) -> Sequence[str]:
    """Return the nodes of a run that it may still come to and whose code the workflow that is brought does not have.

    `functions` are those that decide or merge in its nodes, by the id of the node and by the name in the log.
    """
    graph, has = run.graph, {node.id: _code_of(node) for node in brought.nodes}
    begun, over = ({graph.numbers[node] for node in nodes} for nodes in (run.open, _over(run)))
    coming = {graph.targets[edge] for node in over for edge in graph.outgoing[node]}
    ahead = graph.reached({*run.marking.tokens, *run.marking.released, *begun - over, *coming})
    nodes = (graph.nodes[number] for number in sorted(ahead))
    return [
        node.id
        for node in nodes
        if ((code := _code_of(node)) is not None and has.get(node.id) != code)
        or not _names_in(node) <= functions_of(node, functions.get(node.id, {})).keys()
    ]


def _over(run: RunFold) -> set[str]:
    """Return the open nodes whose code is called no more, such as those that are held when they have ended."""
    held = {task.node for task in run.tasks.values() if task.item is None and _is_over(task)}
    return held | {visit.node for visit in run.open.values() if visit.may_end}


def _is_over(task: Task) -> bool:
    has_its_end = task.held == "after" or task.skipped is not None
    return has_its_end or (task.landing is not None and failure_of(task.landing) is None)


def functions_of(node: Node, brought: Mapping[str, Callable[..., object]]) -> Mapping[str, Callable[..., object]]:
    """Return the functions that are brought for a recorded node, each by its recorded name where it has one.

    One that was moved to another module is found too, unless it may be another one of the same name. Of several that
    only a number tells apart, such as lambdas, none is found when one is gone: the others have other numbers now.
    """
    names = _names_in(node)
    if names <= brought.keys():
        return brought
    new = brought.keys() - names
    moved = [(name, known) for name in names - brought.keys() for known in new if _is_moved(name, known, brought)]
    were, are = [name for name, _ in moved], [known for _, known in moved]
    found = {known: known for known in brought}
    for name, known in moved:
        if were.count(name) == are.count(known) == 1:
            found[name] = known
    gone = {_without_number(name) for name in names - found.keys()}
    return {name: brought[known] for name, known in found.items() if name in new or _without_number(name) not in gone}


def _is_moved(name: str, known: str, brought: Mapping[str, Callable[..., object]]) -> bool:
    module = module_of(brought[known])
    # One of this very module is another function, such as a method of the same name.
    was_here = name.startswith(f"{module}.")
    return not was_here and known.startswith(f"{module}.") and name.endswith(known.removeprefix(module))


def _without_number(name: str) -> str:
    return name.partition("#")[0]


def _code_of(node: Node) -> tuple[type[Node], str, str | None] | None:
    """Return the kind of node by the code that it calls, with the name of a tool and the kind of stream that it runs.

    None for a node that calls none.
    """
    inner = working_node(node, 0)
    if isinstance(inner, WebhookNode) or not isinstance(inner, WorkingNode | LlmRouterNode):
        return None
    return type(inner), inner.tool.name if isinstance(inner, ToolNode) else "", stream_kind(inner)


def _names_in(node: Node) -> set[str]:
    merging = {node.function} if isinstance(node, MergeNode) and node.function is not None else set[str]()
    deciding = (expression for _, expression, _ in expressions_of(node))
    return merging | {each.text for each in deciding if each is not None and each.kind == "function"}
