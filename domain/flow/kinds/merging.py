"""The kind `merge`: brings branches together that were run beside each other.

The view of the node is already their join: of a variable that several branches have changed, the last one's value, and
the messages and artifacts of all. A merge says what differs from that.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from steptrail.domain.flow.envelope import found
from steptrail.domain.flow.kinds.conditions import value_of
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.kinds.values import identity, number_in, text_of
from steptrail.domain.flow.nodes import Expression, MergeNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue

_Object = dict[str, JsonValue]


class Branch(NamedTuple):
    """A branch that meets others: the node that it comes from, the number of that visit, and what is seen after it.

    `keys` are the variables that it has changed since it parted from the others.
    """

    node: str
    number: int
    seen: Seen
    keys: frozenset[str]


def merge(node: MergeNode, branches: Sequence[Branch], seen: Seen, means: NodeMeans) -> Evaluated:
    """Return what branches come to, given in the order of their edges. `seen` is the join of them.

    A single branch is handed on as it is. Raises `NodeFault` of the class `conflict`, and what a function raises.
    """
    result = _merged(node, branches, seen, means)
    if node.strategy in {"json", "best_score"} and node.output is not None:
        now = {key: value for key, value in {**seen.vars, **result.sets}.items() if key not in result.unsets}
        changed = sorted(frozenset[str]().union(*(branch.keys for branch in branches)))
        result = result._replace(output={key: now[key] for key in changed if key in now})
    kept = branches[0].number if node.vars_only and len(branches) > 1 else result.kept
    detail: _Object = {"strategy": node.strategy, "inputs": [branch.node for branch in branches]}
    return result._replace(kept=kept, detail=detail | result.detail)


def _merged(node: MergeNode, branches: Sequence[Branch], seen: Seen, means: NodeMeans) -> Evaluated:
    match node.strategy:
        case "concat":
            return Evaluated(output=node.separator.join(_texts(node.key or "", branches)))
        case "all":
            return Evaluated(output=[dict(branch.seen.vars) for branch in branches])
        case _ if len(branches) == 1:
            return Evaluated()
        case "json":
            return _json(node, branches)
        case "best_score":
            return _best(node.key or "", branches)
        case "function":
            function = Expression(kind="function", text=node.function or "")
            return Evaluated(output=value_of(function, seen, means, [branch.seen.envelope() for branch in branches]))


def _texts(key: str, branches: Sequence[Branch]) -> list[str]:
    values = [found(branch.seen.vars, key)[1] for branch in branches]
    return [text_of(value) for value in values if value is not None]


def _best(key: str, branches: Sequence[Branch]) -> Evaluated:
    """Keep the branch with the highest number; of equal ones, and without a number, the first."""
    scores = [number_in(found(branch.seen.vars, key)[1]) for branch in branches]
    numbers = [score for score in scores if score is not None]
    place = scores.index(max(numbers)) if numbers else 0
    best = branches[place]
    changed = dict.fromkeys(key for branch in branches if branch is not best for key in sorted(branch.keys))
    sets, unsets = _as_in(best, changed)
    detail: _Object = {"best": best.node, "scores": list(scores)}
    return Evaluated(sets=sets, unsets=unsets, kept=best.number, detail=detail)


def _json(node: MergeNode, branches: Sequence[Branch]) -> Evaluated:
    """Keep what each branch has changed; of what several of them have changed, one value, as the node says."""
    writers: dict[str, list[Branch]] = {}
    for branch in branches:
        for key in sorted(branch.keys):
            writers.setdefault(key, []).append(branch)
    conflicts = {
        key: them for key, them in writers.items() if len(them) > 1 and any(key in branch.seen.vars for branch in them)
    }
    sets: _Object = {}
    unsets: tuple[str, ...] = ()
    for key, them in conflicts.items():
        objects = [value for branch in them if isinstance(value := branch.seen.vars.get(key), dict)]
        if node.deep and len(objects) == len(them):
            sets[key] = reduce(lambda under, over: _deep(node, key, under, over), objects)
        elif node.conflict == "error":
            raise NodeFault(
                FailureClass.CONFLICT,
                f"{' and '.join(branch.node for branch in them)} have both changed {key!r}",
                {"key": key, "branches": [branch.node for branch in them]},
            )
        elif node.conflict == "first":
            written, removed = _as_in(them[0], [key])
            sets, unsets = sets | written, unsets + removed
    said: _Object = {key: [branch.node for branch in them] for key, them in conflicts.items()}
    return Evaluated(sets=sets, unsets=unsets, detail={"conflicts": said} if said else {})


def _as_in(branch: Branch, keys: Iterable[str]) -> tuple[_Object, tuple[str, ...]]:
    """Return what makes variables as they are in one branch: those to set and those to remove."""
    sets = {key: branch.seen.vars[key] for key in keys if key in branch.seen.vars}
    return sets, tuple(key for key in keys if key not in sets)


def _deep(node: MergeNode, place: str, under: _Object, over: _Object) -> _Object:
    """Return two objects in one. A part that both have, and that is no object in both, is a conflict of its own."""
    whole = dict(under)
    for key, value in over.items():
        before, inside = whole.get(key), f"{place}.{key}"
        if isinstance(before, dict) and isinstance(value, dict):
            whole[key] = _deep(node, inside, before, value)
        elif key not in whole or node.conflict == "last":
            whole[key] = value
        elif node.conflict == "error" and identity(whole[key]) != identity(value):
            raise NodeFault(FailureClass.CONFLICT, f"branches differ in {inside!r}", {"key": inside})
    return whole
