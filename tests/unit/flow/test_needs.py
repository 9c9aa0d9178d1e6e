"""What operations and checks need is asked for where a node is made."""

from typing import Any

import pytest

from steptrail.domain.errors import ConfigurationError, InvalidWorkflow
from steptrail.domain.flow.nodes import CheckSpec, Expression, FilterNode, GuardianNode, TransformNode
from steptrail.workflow import Check, Workflow, check_flow, load_flow

LACKING: list[tuple[str, dict[str, Any], str]] = [
    ("top_n", {}, "n: Expected 'n', which 'top_n' needs"),
    ("top_n", {"n": -1}, "n: Expected a whole number from 0, not -1"),
    ("top_n", {"n": "2"}, "n: Expected a whole number from 0, not '2'"),
    ("top_n", {"n": True}, "n: Expected a whole number from 0, not True"),
    ("threshold", {}, "min: Expected 'min' or 'max', which 'threshold' needs"),
    ("threshold", {"max": "5"}, "max: Expected a number, not '5'"),
    ("threshold", {"min": 6, "max": 5.5}, "min: Expected a number up to 'max', 5.5, not 6"),
    ("type", {}, "types: Expected 'types', which 'type' needs"),
    ("type", {"types": ["text"]}, "types: Expected some of string, number, integer, boolean, array, object, null, not"),
    ("match", {}, "pattern: Expected 'pattern' or 'values', which 'match' needs"),
    ("exclude", {"values": "a"}, "values: Expected a list, not"),
    ("expression", {}, "expression: Expected 'expression', which 'expression' needs"),
]


@pytest.mark.parametrize(("operation", "settings", "said"), LACKING)
def test_a_filter_without_what_its_operation_needs_is_not_made(
    operation: Any, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        FilterNode(id="f", over="rows", operation=operation, settings=settings)
    assert str(caught.value).startswith(f"FilterNode: {said}")


@pytest.mark.parametrize(
    ("operation", "settings", "said"),
    [
        ("pick", {}, "keys: Expected 'keys', which 'pick' needs"),
        ("omit", {"keys": "a"}, "keys: Expected a list of texts, not"),
        ("omit", {"keys": [1]}, "keys: Expected a list of texts, not"),
        ("rename", {"names": []}, "names: Expected an object, not"),
        ("combine", {}, "paths: Expected 'paths', which 'combine' needs"),
        ("template", {"template": 3}, "template: Expected a text, not"),
        ("expr", {}, "expression: Expected 'expression', which 'expr' needs"),
    ],
)
def test_a_transform_without_what_its_operation_needs_is_not_made(
    operation: Any, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        TransformNode(id="t", operation=operation, settings=settings)
    assert str(caught.value).startswith(f"TransformNode: {said}")


@pytest.mark.parametrize(
    ("kind", "path", "settings", "said"),
    [
        ("required", None, {}, "path: Expected 'path', which 'required' needs"),
        ("length", "a", {}, "min: Expected 'min' or 'max', which 'length' needs"),
        ("range", "a", {"min": "5"}, "min: Expected a number, not"),
        ("range", "a", {"min": 5, "max": 4}, "min: Expected a number up to 'max', 4, not 5"),
        ("length", "a", {"min": 5, "max": 4}, "min: Expected a number up to 'max', 4, not 5"),
        ("pattern", "a", {}, "pattern: Expected 'pattern', which 'pattern' needs"),
        ("enum", "a", {}, "values: Expected 'values', which 'enum' needs"),
        ("type", "a", {"type": "text"}, "type: Expected one of string, number,"),
        ("schema", "a", {"schema": []}, "schema: Expected an object, not"),
        ("expr", "a", {}, "expression: Expected 'expression', which 'expr' needs"),
    ],
)
def test_a_guardian_with_a_check_that_cannot_be_done_is_not_made(
    kind: Any, path: str | None, settings: dict[str, Any], said: str
) -> None:
    right = CheckSpec(kind="expr", expression=Expression.of("vars.ok"))
    with pytest.raises(ConfigurationError) as caught:
        GuardianNode(id="g", checks=(right, CheckSpec(kind=kind, path=path, settings=settings)))
    assert str(caught.value).startswith(f"GuardianNode: checks[1].{said}")


def test_it_is_told_with_the_node_where_a_workflow_is_written() -> None:
    with pytest.raises(ConfigurationError, match=r"^node 'best': n: Expected 'n', which 'top_n' needs$"):
        Workflow("w").filter("best", "top_n", over="vars.rows")
    with pytest.raises(ConfigurationError, match=r"^node 'sound': checks\[0\]\.min: Expected 'min' or 'max'"):
        Workflow("w").guardian("sound", [Check("length", "vars.a")])


def test_all_of_a_file_are_told_at_once_each_at_its_place() -> None:
    text = """\
steptrail: flow/v1
name: lacking
nodes:
  - {id: a, kind: filter, operation: top_n, over: vars.rows}
  - id: b
    kind: guardian
    checks:
      - {kind: required, path: vars.rows}
      - {kind: range, path: vars.n, min: 1}
      - {kind: length, path: vars.n}
  - {id: c, kind: transform, operation: pick}
edges: [a > b > c]
"""
    found = check_flow(text)
    assert [(each.code, each.path, each.line) for each in found] == [
        ("FL-110", "nodes[0].n", 4),
        ("FL-110", "nodes[1].checks[2].min", 10),
        ("FL-110", "nodes[2].keys", 11),
    ]
    with pytest.raises(InvalidWorkflow):
        load_flow(text, {})


@pytest.mark.parametrize("n", [0, 3, 3.0])
def test_a_whole_number_is_one_however_it_is_written(n: Any) -> None:
    assert FilterNode(id="f", operation="top_n", over="vars.rows", settings={"n": n}).settings == {"n": n}
    with pytest.raises(ConfigurationError, match="a whole number from 0"):
        FilterNode(id="f", operation="top_n", over="vars.rows", settings={"n": n + 0.5})
