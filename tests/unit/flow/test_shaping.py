"""Transforms: each operation, what it takes, and what it refuses."""

import json
from typing import Any

import pytest
from hypothesis import given

from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.nodes import Expression, TransformNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.json_values import json_values
from tests.unit.flow.means import means

SEEN = Seen(
    vars={
        "doc": {"a": 1, "b": {"c": 2, "d": {}}},
        "rows": [{"a": 1, "x": 2}, {"x": 3}],
        "nested": [[1, 2], 3, [[4]]],
        "more": {"b": {"e": 5}, "z": 0},
        "text": "no JSON",
        "fenced": '```json\n{"k": [1]}\n```',
        "none": None,
        "n": 7,
    },
    input="in",
)


def made(operation: Any, source: str | None = None, **settings: JsonValue) -> JsonValue:
    node = TransformNode(id="t", operation=operation, source=source, settings=settings)
    return evaluate(node, SEEN, means()).output


@pytest.mark.parametrize(
    ("operation", "source", "settings", "output"),
    [
        ("pick", "doc", {"keys": ["a", "gone"]}, {"a": 1}),
        ("pick", "rows", {"keys": ["a"]}, [{"a": 1}, {}]),
        ("pick", None, {"keys": ["n"]}, {"n": 7}),
        ("omit", "doc", {"keys": ["b"]}, {"a": 1}),
        ("rename", "rows", {"names": {"x": "y"}}, [{"a": 1, "y": 2}, {"y": 3}]),
        ("flatten", "nested", {}, [1, 2, 3, [4]]),
        ("flatten", "doc", {}, {"a": 1, "b.c": 2, "b.d": {}}),
        ("flatten", "doc", {"separator": "_"}, {"a": 1, "b_c": 2, "b_d": {}}),
        ("combine", None, {"paths": ["doc", "more"]}, {"a": 1, "b": {"e": 5}, "z": 0}),
        ("combine", None, {"paths": ["doc", "more"], "deep": True}, {"a": 1, "b": {"c": 2, "d": {}, "e": 5}, "z": 0}),
        ("combine", None, {"paths": ["rows", "none", "nested"]}, [{"a": 1, "x": 2}, {"x": 3}, [1, 2], 3, [[4]]]),
        ("template", None, {"template": "{{ n }} of {{ input }}"}, "7 of in"),
        ("template", "doc", {"template": "{{ item.a }}"}, "1"),
        ("stringify", "doc", {}, '{"a":1,"b":{"c":2,"d":{}}}'),
        ("stringify", "input", {}, '"in"'),
        ("parse", "vars.fenced", {}, {"k": [1]}),
    ],
)
def test_an_operation_computes(
    operation: str, source: str | None, settings: dict[str, JsonValue], output: JsonValue
) -> None:
    assert made(operation, source, **settings) == output


@pytest.mark.parametrize(
    ("operation", "source", "settings"),
    [
        ("pick", "n", {"keys": []}),
        ("omit", "nested", {"keys": []}),
        ("rename", "doc", {"names": {"a": "b"}}),
        ("flatten", "n", {}),
        ("combine", None, {"paths": ["doc", "rows"]}),
        ("parse", "n", {}),
        ("parse", "text", {}),
    ],
)
def test_a_value_that_does_not_fit_is_a_fault_of_validation(
    operation: str, source: str | None, settings: dict[str, JsonValue]
) -> None:
    with pytest.raises(NodeFault) as caught:
        made(operation, source, **settings)
    assert caught.value.failure is FailureClass.VALIDATION


def test_keys_that_flattening_would_lose_are_refused() -> None:
    seen = Seen(vars={"v": {"a.b": 1, "a": {"b": 2}}})
    with pytest.raises(NodeFault, match=r"two values would have the key 'a\.b'"):
        evaluate(TransformNode(id="t", operation="flatten", source="v"), seen, means())


@pytest.mark.parametrize(
    ("operation", "source", "settings"),
    [
        ("combine", None, {"paths": ["gone"]}),
        ("template", None, {"template": "{{ gone }}"}),
        ("stringify", "gone", {}),
    ],
)
def test_what_is_missing_is_a_fault_of_configuration(
    operation: str, source: str | None, settings: dict[str, JsonValue]
) -> None:
    with pytest.raises(NodeFault) as caught:
        made(operation, source, **settings)
    assert caught.value.failure is FailureClass.CONFIG


def expression(kind: Any, text: str, source: str | None = None) -> TransformNode:
    return TransformNode(id="t", operation="expr", source=source, expression=Expression(kind=kind, text=text))


def test_an_expression_computes_from_the_source_or_from_all() -> None:
    twice = means({"f": lambda value: value * 2}, expressions={"item * 2": lambda variables: variables["item"] * 2})
    assert evaluate(expression("cel", "item * 2", "n"), SEEN, twice).output == 14
    assert evaluate(expression("function", "f", "n"), SEEN, twice).output == 14
    assert evaluate(expression("path", "doc.a"), SEEN, twice).output == 1
    whole = means({"f": lambda envelope: envelope.get("n")})
    assert evaluate(expression("function", "f"), SEEN, whole).output == 7


def test_what_a_function_returns_has_to_be_json() -> None:
    with pytest.raises(NodeFault, match="f returned") as caught:
        evaluate(expression("function", "f"), SEEN, means({"f": lambda envelope: {1, 2}}))
    assert caught.value.failure is FailureClass.VALIDATION


def test_a_function_cannot_change_what_it_is_shown() -> None:
    node = expression("function", "f")
    evaluate(node, SEEN, means({"f": lambda envelope: envelope.vars["rows"].clear()}))
    assert SEEN.vars["rows"] == [{"a": 1, "x": 2}, {"x": 3}]


@given(json_values)
def test_what_is_written_as_json_is_read_back(value: JsonValue) -> None:
    text = evaluate(TransformNode(id="t", operation="stringify", source="v"), Seen(vars={"v": value}), means()).output
    assert isinstance(text, str)
    assert json.loads(text) == value
    back = evaluate(TransformNode(id="t", operation="parse", source="v"), Seen(vars={"v": text}), means()).output
    assert back == value
