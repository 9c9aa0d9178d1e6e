"""The kind `transform`: computes a value from one value of the view, or from all variables."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

from steptrail.domain.flow.kinds.conditions import value_of
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen, needed
from steptrail.domain.flow.kinds.templates import rendered
from steptrail.domain.flow.nodes import Expression, TransformNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import json_in

_Object = dict[str, JsonValue]
_Change = Callable[[_Object], _Object]


def transform(node: TransformNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the computed value. Raises `NodeFault`: `config` for a missing value, `validation` for a wrong one.

    What its operation needs is there: a node without it is not made.
    """
    source: JsonValue = dict(seen.vars) if node.source is None else needed(seen, node.source)
    return Evaluated(output=_computed(node, source, seen, means))


def _computed(node: TransformNode, source: JsonValue, seen: Seen, means: NodeMeans) -> JsonValue:
    inside = seen if node.source is None else replace(seen, item=source)
    match node.operation:
        case "pick":
            kept = _texts(node, "keys")
            return _each(source, lambda value: {key: value[key] for key in kept if key in value})
        case "omit":
            dropped = _texts(node, "keys")
            return _each(source, lambda value: {key: value[key] for key in value if key not in dropped})
        case "rename":
            names = cast("_Object", node.settings["names"])
            return _each(source, lambda value: _once((str(names.get(key, key)), value[key]) for key in value))
        case "flatten":
            return _flat(source, str(node.settings.get("separator", ".")))
        case "combine":
            values = [needed(seen, path) for path in _texts(node, "paths")]
            return _combined([each for each in values if each is not None], node.settings.get("deep") is True)
        case "template":
            return rendered(str(node.settings["template"]), inside)
        case "stringify":
            return json.dumps(source, ensure_ascii=False, separators=(",", ":"))
        case "parse":
            return _parsed(source)
        case "expr":
            expression = cast("Expression", node.expression)
            return value_of(expression, inside, means, *(() if node.source is None else (source,)))


def _each(source: JsonValue, change: _Change) -> JsonValue:
    """Return a changed object, or a list of changed objects."""
    if isinstance(source, list):
        return [
            _each(item, change) if isinstance(item, dict) else _refuse("an item of the list", item) for item in source
        ]
    return change(source) if isinstance(source, dict) else _refuse("the value", source)


def _flat(source: JsonValue, separator: str) -> JsonValue:
    """Return one list of a list of lists, or an object without objects in it."""
    if isinstance(source, list):
        return [each for item in source for each in (item if isinstance(item, list) else [item])]
    return _once(_leaves(source, separator)) if isinstance(source, dict) else _refuse("the value", source)


def _leaves(source: _Object, separator: str) -> Iterator[tuple[str, JsonValue]]:
    for key, value in source.items():
        if isinstance(value, dict) and value:
            yield from ((f"{key}{separator}{below}", leaf) for below, leaf in _leaves(value, separator))
        else:
            yield key, value


def _combined(values: list[JsonValue], deep: bool) -> JsonValue:
    """Return one object of objects, in which later ones win, or one list of lists."""
    objects = [value for value in values if isinstance(value, dict)]
    if len(objects) == len(values):
        whole: _Object = {}
        for value in objects:
            whole = _over(whole, value) if deep else whole | value
        return whole
    lists = [value for value in values if isinstance(value, list)]
    if len(lists) == len(values):
        return [each for value in lists for each in value]
    raise NodeFault(FailureClass.VALIDATION, "the values to combine are neither all objects nor all lists")


def _over(under: _Object, over: _Object) -> _Object:
    merged = dict(under)
    for key, value in over.items():
        before = merged.get(key)
        merged[key] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _parsed(source: JsonValue) -> JsonValue:
    if not isinstance(source, str):
        return _refuse("the value", source)
    try:
        return json_in(source)
    except ValueError as error:
        raise NodeFault(FailureClass.VALIDATION, f"the text is no JSON: {error}") from None


def _once(pairs: Iterable[tuple[str, JsonValue]]) -> _Object:
    made: _Object = {}
    for key, value in pairs:
        if key in made:
            raise NodeFault(FailureClass.VALIDATION, f"two values would have the key {key!r}")
        made[key] = value
    return made


def _refuse(what: str, value: JsonValue) -> JsonValue:
    raise NodeFault(
        FailureClass.VALIDATION, f"{what} is of the type {type(value).__name__}, which cannot be changed so"
    )


def _texts(node: TransformNode, name: str) -> list[str]:
    return cast("list[str]", node.settings[name])
