"""Branches that meet: what each strategy makes of them, in the order of their edges."""

from collections.abc import Sequence
from typing import Any

import pytest

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.envelope import Envelope
from steptrail.domain.flow.kinds.merging import Branch, merge
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.nodes import MergeNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.means import means

BEFORE: dict[str, JsonValue] = {"topic": "tea", "plan": 1}


def branch(node: str, number: int, removed: Sequence[str] = (), **changed: JsonValue) -> Branch:
    """Return a branch that began with `BEFORE` and has changed something."""
    after = {key: value for key, value in (BEFORE | changed).items() if key not in removed}
    return Branch(node, number, Seen(vars=after), frozenset(changed) | frozenset(removed))


def merged(*branches: Branch, functions: dict[str, Any] | None = None, **settings: Any) -> Evaluated:
    joined = dict(BEFORE)
    for each in branches:
        joined |= {key: each.seen.vars[key] for key in each.keys if key in each.seen.vars}
        joined = {key: value for key, value in joined.items() if key not in each.keys or key in each.seen.vars}
    return merge(MergeNode(id="m", **settings), branches, Seen(vars=joined), means(functions))


ONE = branch("one", 4, found="a", score=1, doc={"a": 1, "both": {"x": 1, "n": 0}})
TWO = branch("two", 9, found="b", score=2.5, only="two", doc={"b": 2, "both": {"y": 2, "n": 0}})


def test_the_last_value_is_what_the_join_has_already() -> None:
    result = merged(ONE, TWO)
    assert (result.output, result.sets, result.unsets, result.kept) == (None, {}, (), None)
    assert result.detail == {
        "strategy": "json",
        "inputs": ["one", "two"],
        "conflicts": {"doc": ["one", "two"], "found": ["one", "two"], "score": ["one", "two"]},
    }


def test_the_first_value_stays_where_several_branches_have_written() -> None:
    result = merged(ONE, TWO, conflict="first")
    assert result.sets == {key: ONE.seen.vars[key] for key in ("doc", "found", "score")}


def test_what_the_first_branch_removed_stays_removed() -> None:
    result = merged(branch("one", 1, removed=["plan"]), branch("two", 2, plan=2), conflict="first")
    assert (result.sets, result.unsets) == ({}, ("plan",))


def test_a_conflict_can_be_an_error_that_names_the_branches() -> None:
    with pytest.raises(NodeFault, match="one and two have both changed 'found'") as raised:
        merged(branch("one", 1, found=1), branch("two", 2, found=1), conflict="error")
    assert raised.value.failure is FailureClass.CONFLICT
    assert raised.value.details == {"key": "found", "branches": ["one", "two"]}


def test_a_variable_from_before_the_branches_is_no_conflict() -> None:
    assert merged(branch("one", 1, a=1), branch("two", 2, b=2), conflict="error").sets == {}


def test_what_all_branches_have_removed_is_no_conflict() -> None:
    one, two = branch("one", 1, removed=["plan", "x_error"]), branch("two", 2, removed=["plan", "x_error"])
    assert merged(one, two, conflict="error").detail == {"strategy": "json", "inputs": ["one", "two"]}


def test_deep_brings_objects_together_and_leaves_the_rest_to_the_conflict() -> None:
    assert merged(ONE, TWO, deep=True).sets == {"doc": {"a": 1, "b": 2, "both": {"x": 1, "y": 2, "n": 0}}}
    one, two = branch("one", 1, doc={"n": 1}, x=1), branch("two", 2, doc={"n": 2}, x=2)
    assert merged(one, two, deep=True).sets == {"doc": {"n": 2}}
    first = merged(one, two, deep=True, conflict="first")
    assert first.sets == {"doc": {"n": 1}, "x": 1}


def test_a_deep_conflict_is_one_only_where_the_parts_differ() -> None:
    same = merged(branch("one", 1, doc={"n": 1, "a": 1}), branch("two", 2, doc={"n": 1.0}), deep=True, conflict="error")
    assert same.sets == {"doc": {"n": 1, "a": 1}}
    with pytest.raises(NodeFault, match=r"doc\.in\.n"):
        merged(
            branch("one", 1, doc={"in": {"n": 1}}), branch("two", 2, doc={"in": {"n": 2}}), deep=True, conflict="error"
        )


def test_texts_are_joined_in_order_and_missing_ones_left_out() -> None:
    result = merged(ONE, branch("none", 5, found=None), branch("other", 6), TWO, strategy="concat", key="found")
    assert result.output == "a\nb"
    assert merged(ONE, TWO, strategy="concat", key="doc.a", separator="").output == "1"


def test_the_branch_with_the_highest_number_is_kept_with_all_its_variables() -> None:
    one, two = branch("one", 4, score=3, x=1), branch("two", 9, score=2, topic="milk", extra=1)
    result = merged(one, two, strategy="best_score", key="score")
    assert (result.sets, result.unsets) == ({"score": 3, "topic": "tea"}, ("extra",))
    assert result.kept == 4
    assert result.detail["best"] == "one"
    assert result.detail["scores"] == [3.0, 2.0]


@pytest.mark.parametrize("scores", [(1, 1), (None, None), ("9", True), (1, "high")])
def test_of_equal_scores_and_without_a_number_the_first_wins(scores: tuple[JsonValue, JsonValue]) -> None:
    one, two = (branch(f"n{i}", i, score=score) for i, score in enumerate(scores, 1))
    assert merged(one, two, strategy="best_score", key="score").detail["best"] == "n1"


def test_all_lists_the_variables_of_each_branch_even_of_one() -> None:
    assert merged(ONE, TWO, strategy="all").output == [ONE.seen.vars, TWO.seen.vars]
    assert merged(ONE, strategy="all").output == [ONE.seen.vars]


def test_a_function_gets_the_envelopes_and_returns_the_output() -> None:
    def count(envelopes: list[Envelope]) -> JsonValue:
        return [each.get("found") for each in envelopes]

    assert merged(ONE, TWO, strategy="function", function="count", functions={"count": count}).output == ["a", "b"]


def test_one_live_branch_is_handed_on_and_no_strategy_is_called() -> None:
    assert merged(ONE, strategy="function", function="nobody") == Evaluated(
        detail={"strategy": "function", "inputs": ["one"]}
    )
    assert merged(ONE, strategy="best_score", key="score", vars_only=True).kept is None


def test_vars_only_keeps_the_messages_of_the_first_branch() -> None:
    assert merged(ONE, TWO, vars_only=True).kept == 4
    assert merged(ONE, TWO, vars_only=True, strategy="best_score", key="score").kept == 4


def test_a_named_output_holds_what_the_branches_have_changed() -> None:
    result = merged(branch("one", 1, a=1, b=1), branch("two", 2, b=2, c=2), output="out", conflict="first")
    assert result.output == {"a": 1, "b": 1, "c": 2}


@pytest.mark.parametrize(
    "settings", [{"strategy": "concat"}, {"strategy": "best_score"}, {"strategy": "function"}, {"function": "f"}]
)
def test_a_strategy_without_what_it_needs_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        MergeNode(id="m", **settings)
