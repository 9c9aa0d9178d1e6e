"""The kind `filter`: keeps some items of a list, in their order, or the highest of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from steptrail.domain.flow.envelope import found
from steptrail.domain.flow.kinds.conditions import holds
from steptrail.domain.flow.kinds.port import NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen, needed_list
from steptrail.domain.flow.kinds.values import has_type, identity, number_in, text_of
from steptrail.domain.flow.nodes import Expression, FilterNode
from steptrail.domain.json_value import JsonValue

_Items = list[JsonValue]


def filtered(node: FilterNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the items that are kept. Raises `NodeFault`: `config` for no value, `validation` for one that is no list.

    What its operation needs is there: a node without it is not made. An item without a usable value at `by` is never
    kept by `top_n`, `threshold`, `type` and `match`, and always by `dedupe` and `exclude`.
    """
    items = needed_list(seen, node.over)
    kept = [items[place] for place in _kept(node, items, seen, means)]
    return Evaluated(output=kept, detail={"kept": len(kept), "of": len(items)})


def _kept(node: FilterNode, items: _Items, seen: Seen, means: NodeMeans) -> Iterable[int]:
    """Return the places of the items that are kept. It is no generator, which would rename a `StopIteration`."""
    match node.operation:
        case "top_n":
            return _highest(node, items)
        case "threshold":
            return _between(node, items)
        case "dedupe":
            return _first_of_equals(node, items)
        case "type":
            types = cast("list[str]", node.settings["types"])
            return [
                place
                for place, item in enumerate(items)
                if (at := _at(node, item))[0] and any(has_type(at[1], name) for name in types)
            ]
        case "match":
            return [place for place, item in enumerate(items) if _fits(node, item, means)]
        case "exclude":
            return [place for place, item in enumerate(items) if not _fits(node, item, means)]
        case "expression":
            expression = cast("Expression", node.expression)
            return [
                place
                for place, item in enumerate(items)
                if holds(expression, replace(seen, item=item, index=place), means, item)
            ]


def _highest(node: FilterNode, items: _Items) -> list[int]:
    count = cast("float", node.settings["n"])
    sign = 1 if node.settings.get("order") == "asc" else -1
    scores = [(sign * score, place) for place, score in _scores(node, items)]
    return [place for _, place in sorted(scores)[: int(count)]]


def _between(node: FilterNode, items: _Items) -> Iterator[int]:
    least, most = number_in(node.settings.get("min")), number_in(node.settings.get("max"))
    for place, score in _scores(node, items):
        if (least is None or score >= least) and (most is None or score <= most):
            yield place


def _scores(node: FilterNode, items: _Items) -> Iterator[tuple[int, float]]:
    for place, item in enumerate(items):
        is_there, value = _at(node, item)
        score = number_in(value) if is_there else None
        if score is not None:
            yield place, score


def _first_of_equals(node: FilterNode, items: _Items) -> Iterator[int]:
    met = set[str]()
    for place, item in enumerate(items):
        is_there, value = _at(node, item)
        key = identity(value)
        if not is_there or key not in met:
            yield place
        if is_there:
            met.add(key)


def _fits(node: FilterNode, item: JsonValue, means: NodeMeans) -> bool:
    pattern = node.settings.get("pattern")
    is_there, value = _at(node, item)
    if not is_there:
        return False
    if pattern is not None and means.patterns.fits(pattern, text_of(value)):
        return True
    return identity(value) in map(identity, cast("_Items", node.settings.get("values") or []))


def _at(node: FilterNode, item: JsonValue) -> tuple[bool, JsonValue]:
    """Return whether an item has the value that is looked at, and the value."""
    by = node.settings.get("by")
    if by is None:
        return True, item
    return found(item, str(by)) if isinstance(item, dict) else (False, None)
