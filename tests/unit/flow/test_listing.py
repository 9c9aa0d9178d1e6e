"""Filters: each operation, items without the value, ties, and what cannot be filtered."""

from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.flow.envelope import Artifact, NodeError
from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.nodes import Expression, FilterNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from tests.unit.flow.json_values import json_values
from tests.unit.flow.means import means

ROWS: list[JsonValue] = [{"s": 2, "k": "a"}, {"s": 3}, {"k": "b"}, {"s": 2.0, "k": "ab"}, {"s": True}, "odd"]


def kept(operation: Any, items: JsonValue = ROWS, **settings: JsonValue) -> JsonValue:
    node = FilterNode(id="f", over="rows", operation=operation, settings=settings)
    return evaluate(node, Seen(vars={"rows": items}), means()).output


def places(operation: Any, **settings: JsonValue) -> list[int]:
    found = kept(operation, **settings)
    assert isinstance(found, list)
    return [next(place for place, row in enumerate(ROWS) if row is each) for each in found]


def test_whole_numbers_too_large_for_a_float_are_told_apart() -> None:
    orders: list[JsonValue] = [2**53, 2**53 + 1]
    assert kept("top_n", orders, n=1) == [2**53 + 1]
    assert kept("threshold", orders, min=2**53 + 1) == [2**53 + 1]


@pytest.mark.parametrize(
    ("operation", "settings", "expected"),
    [
        ("top_n", {"n": 2, "by": "s"}, [1, 0]),
        ("top_n", {"n": 2, "by": "s", "order": "asc"}, [0, 3]),
        ("top_n", {"n": 9, "by": "s"}, [1, 0, 3]),
        ("top_n", {"n": 0, "by": "s"}, []),
        ("threshold", {"min": 2, "by": "s"}, [0, 1, 3]),
        ("threshold", {"max": 2, "by": "s"}, [0, 3]),
        ("dedupe", {"by": "s"}, [0, 1, 2, 4, 5]),
        ("type", {"types": ["object"]}, [0, 1, 2, 3, 4]),
        ("type", {"types": ["number", "null"], "by": "s"}, [0, 1, 3]),
        ("match", {"pattern": "^a", "by": "k"}, [0, 3]),
        ("match", {"values": [2], "by": "s"}, [0, 3]),
        ("match", {"values": ["odd"]}, [5]),
        ("exclude", {"pattern": "^a", "by": "k"}, [1, 2, 4, 5]),
    ],
)
def test_an_operation_keeps(operation: str, settings: dict[str, JsonValue], expected: list[int]) -> None:
    assert places(operation, **settings) == expected


def test_a_filter_tells_how_many_it_kept() -> None:
    node = FilterNode(id="f", over="rows", operation="match", settings={"values": ["odd"]})
    assert evaluate(node, Seen(vars={"rows": ROWS}), means()).detail == {"kept": 1, "of": 6}


def test_an_expression_sees_each_item_and_its_index() -> None:
    node = FilterNode(
        id="f", over="input", operation="expression", expression=Expression(kind="cel", text="item > 1 && index")
    )
    even = means(
        expressions={"item > 1 && index": lambda variables: variables["item"] > 1 and variables["index"] % 2 == 0}
    )
    assert evaluate(node, Seen(input=[1, 2, 3]), even).output == [3]
    own = FilterNode(id="f", over="input", operation="expression", expression=Expression(kind="function", text="f"))
    assert evaluate(own, Seen(input=[None, 2]), means({"f": lambda item: item is None})).output == [None]
    path = FilterNode(id="f", over="input", operation="expression", expression=Expression.of("item.ok"))
    assert evaluate(path, Seen(input=[{"ok": 1}, {}]), means()).output == [{"ok": 1}]


ERRORS = tuple(
    NodeError(node_id=f"n{place}", kind="tool", message="m", attempt=1, visit=1, failure=failure, tier="node", at=0)
    for place, failure in enumerate((FailureClass.TOOL, FailureClass.TIMEOUT))
)


def test_the_errors_messages_and_artifacts_of_a_run_can_be_filtered() -> None:
    seen = Seen(errors=ERRORS, messages=(Message.user("hi"),), artifacts=(Artifact(id="a", type="report"),))
    late = FilterNode(id="f", over="errors", operation="match", settings={"by": "failure", "values": ["timeout"]})
    (found,) = cast("list[dict[str, JsonValue]]", evaluate(late, seen, means()).output)
    # All fields are there, those with their defaults too: an expression may name them.
    assert found["node_id"] == "n1"
    assert found.keys() == set(NodeError.__struct_fields__)
    reports = FilterNode(id="f", over="artifacts", operation="match", settings={"by": "type", "values": ["report"]})
    assert evaluate(reports, seen, means()).detail == {"kept": 1, "of": 1}
    said = FilterNode(id="f", over="messages", operation="exclude", settings={"by": "role", "values": ["user"]})
    assert evaluate(said, seen, means()).output == []


@pytest.mark.parametrize("items", [None, {"a": 1}, "text", 3])
def test_what_is_no_list_is_a_fault_of_validation(items: JsonValue) -> None:
    with pytest.raises(NodeFault) as caught:
        kept("dedupe", items)
    assert caught.value.failure is FailureClass.VALIDATION


def test_a_pattern_that_is_none_is_a_fault_of_configuration() -> None:
    with pytest.raises(NodeFault) as caught:
        kept("exclude", pattern="[")
    assert caught.value.failure is FailureClass.CONFIG


def test_a_list_that_is_not_there_is_a_fault_of_configuration() -> None:
    with pytest.raises(NodeFault, match="nothing at 'gone'"):
        evaluate(FilterNode(id="f", over="gone", operation="dedupe"), Seen(), means())


LISTS = st.lists(json_values, max_size=6)


@given(LISTS)
def test_what_fits_and_what_does_not_are_together_the_list(items: list[JsonValue]) -> None:
    matching, rest = (kept(each, items, pattern="[0-9]", values=[None]) for each in ("match", "exclude"))
    assert isinstance(matching, list)
    assert isinstance(rest, list)
    assert len(matching) + len(rest) == len(items)


@given(LISTS)
def test_equals_are_kept_once(items: list[JsonValue]) -> None:
    once = kept("dedupe", items)
    assert isinstance(once, list)
    assert kept("dedupe", once) == once
    assert kept("dedupe", [*items, *items]) == once


@given(st.lists(st.integers(0, 3)), st.integers(0, 5))
def test_the_highest_are_kept_and_of_equals_the_earlier(scores: list[int], n: int) -> None:
    rows: list[JsonValue] = [{"s": score, "at": place} for place, score in enumerate(scores)]
    found = kept("top_n", rows, n=n, by="s")
    assert found == sorted(rows, key=lambda row: -row["s"] if isinstance(row, dict) else 0)[:n]  # type: ignore[operator]
