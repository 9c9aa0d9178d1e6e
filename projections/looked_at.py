"""The values that a gate or a guardian looked at when it stopped a run, such as a reviewer's answer."""

import json
import re
from collections.abc import Iterator, Mapping

from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.nodes import Expression, GateNode, GuardianNode, HumanNode, Node
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.secrets import without_secret_values

_MOST_VALUES, _MOST_ENTRIES, _MOST_CHARACTERS, _DEEPEST = 5, 10, 300, 3
_WORD = re.compile(r"[^\W\d]\w*")


def looked_at(state: FlowState, name: str) -> Mapping[str, JsonValue]:
    """Return the variables that the gate or guardian of this name has looked at, abridged; none for another node.

    Of a function that decides nobody knows what it has read: then they are what the nodes before it have given.
    """
    run = state.run
    visit = run.open.get(name) if run is not None else None
    if visit is None or run is None:
        return {}
    node = run.node(name)
    if not isinstance(node, GateNode | GuardianNode):
        return {}
    names = [each for each in dict.fromkeys(_named(node, run)) if each in visit.view.vars]
    return {each: _short(without_secret_values(visit.view.vars[each])) for each in names[:_MOST_VALUES]}


def looked_at_text(name: str, value: JsonValue) -> str:
    """Return a variable that a gate looked at, in words: an answer of a person as a sentence, all else as JSON."""
    if isinstance(value, dict) and {"approved", "choice", "notes", "by", "at"} <= value.keys():
        said = {True: "approved", False: "rejected"}.get(value["approved"] is True) if value["choice"] is None else None
        said = said or f"chose {value['choice']}"
        who = "the default answer" if value["by"] is None else value["by"]
        return f"{name}: {who} {said}" + (f": {value['notes']}" if value["notes"] else "")
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _named(node: GateNode | GuardianNode, run: RunFold) -> Iterator[str]:
    """Yield the names of variables that a node may look at."""
    graph = run.graph
    before = [graph.nodes[graph.sources[edge]] for edge in graph.incoming[graph.numbers[node.id]]]
    answers = {f"{_key(each)}_approved": _key(each) for each in graph.nodes if isinstance(each, HumanNode)}
    conditions = [node.when] if isinstance(node, GateNode) else [check.expression for check in node.checks]
    paths = [] if isinstance(node, GateNode) else [Expression.of(each.path) for each in node.checks if each.path]
    for expression in [*conditions, *paths]:
        if expression is not None and expression.kind == "function":
            yield from map(_key, before)
        words: list[str] = [] if expression is None else _WORD.findall(expression.text)
        # Whether a person said yes stands beside the answer, which says why.
        yield from (answers.get(word, word) for word in words)


def _key(node: Node) -> str:
    return node.output or node.id


def _short(value: JsonValue, depth: int = 0) -> JsonValue:
    """Return a value without most of what is large in it."""
    match value:
        case str() if len(value) > _MOST_CHARACTERS:
            return f"{value[:_MOST_CHARACTERS]}…"
        case dict() | list() if depth == _DEEPEST and value:
            return "…"
        case dict():
            return {key: _short(value[key], depth + 1) for key in list(value)[:_MOST_ENTRIES]}
        case list():
            return [_short(each, depth + 1) for each in value[:_MOST_ENTRIES]]
        case _:
            return value
