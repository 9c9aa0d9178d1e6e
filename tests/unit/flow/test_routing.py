"""Rules and conditionals: which node comes next, and which comparison holds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from steptrail.domain.flow.kinds.conditions import compares
from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.nodes import CaseSpec, Condition, ConditionalNode, Expression, RuleRouterNode, RuleSpec
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.json_values import json_values
from tests.unit.flow.means import means

SEEN = Seen(
    vars={
        "five": "5",
        "n": 5,
        "ten": "10",
        "order": 2**53 + 1,
        "tags": ["a", 1],
        "doc": {"k": 1},
        "no": False,
        "none": None,
    }
)

YES, NO = Expression.of("n"), Expression.of("no")


def condition(path: str, operator: Any, value: JsonValue = None) -> bool:
    return compares(Condition(path=path, operator=operator, value=value), SEEN)


@pytest.mark.parametrize(
    ("path", "operator", "value"),
    [
        ("n", "eq", 5.0),
        ("five", "eq", 5),
        ("ten", "lt", "9"),
        ("n", "lt", 10),
        ("n", "gte", 5),
        ("n", "lte", 5),
        ("n", "gt", 4.5),
        ("order", "neq", 2**53),
        ("order", "gt", 2**53),
        ("no", "eq", "false"),
        ("none", "eq", None),
        ("none", "exists", None),
        ("nothing", "not_exists", None),
        ("nothing", "neq", 1),
        ("n", "neq", 6),
        ("tags", "contains", "1"),
        ("doc", "contains", "k"),
        ("ten", "contains", 0),
        ("ten", "starts_with", 1),
        ("ten", "ends_with", "0"),
        ("n", "in", [4, "5"]),
        ("vars.doc.k", "eq", 1),
    ],
)
def test_a_comparison_holds(path: str, operator: str, value: JsonValue) -> None:
    assert condition(path, operator, value)


@pytest.mark.parametrize(
    ("path", "operator", "value"),
    [
        ("n", "eq", "5.0"),
        ("ten", "gt", "9"),
        ("n", "neq", 5.0),
        ("nothing", "eq", None),
        ("nothing", "gt", 0),
        ("nothing", "in", ["x"]),
        ("nothing", "exists", None),
        ("none", "not_exists", None),
        ("tags", "contains", "b"),
        ("n", "in", [4]),
    ],
)
def test_a_comparison_does_not_hold(path: str, operator: str, value: JsonValue) -> None:
    assert not condition(path, operator, value)


@given(json_values, json_values)
def test_of_two_values_exactly_one_order_holds(left: JsonValue, right: JsonValue) -> None:
    seen = Seen(vars={"v": left})
    operators: tuple[Any, ...] = ("lt", "eq", "gt")
    assert sum(compares(Condition(path="v", operator=each, value=right), seen) for each in operators) == 1
    equal, other = (compares(Condition(path="v", operator=each, value=right), seen) for each in ("eq", "neq"))
    assert equal is not other


def router(*rules: RuleSpec, **settings: Any) -> RuleRouterNode:
    return RuleRouterNode(id="r", rules=rules, **settings)


def test_the_first_rule_that_holds_decides() -> None:
    result = evaluate(router(RuleSpec(to="a", when=NO), RuleSpec(to="b"), RuleSpec(to="c")), SEEN, means())
    assert result.route is not None
    assert (result.route.targets, result.route.reason) == (("b",), "rule 2")
    assert result.output == {"targets": ["b"], "reason": "rule 2"}


def test_all_rules_that_hold_decide_together_each_target_once() -> None:
    rules = (RuleSpec(to="a"), RuleSpec(to="b", when=YES), RuleSpec(to="a"), RuleSpec(to="c", when=NO))
    result = evaluate(router(*rules, allow_multiple=True), SEEN, means())
    assert result.route is not None
    assert result.route.targets == ("a", "b")


def test_all_conditions_of_a_rule_have_to_hold() -> None:
    both = (Condition(path="n", value=5), Condition(path="n", value=6))
    result = evaluate(router(RuleSpec(to="a", conditions=both), default="d"), SEEN, means())
    assert result.output == {"targets": ["d"], "reason": "default"}


def test_without_a_rule_that_holds_the_branch_ends() -> None:
    result = evaluate(router(RuleSpec(to="a", when=NO)), SEEN, means())
    assert result.route is not None
    assert result.route.targets == ()


def conditional(*cases: CaseSpec, **settings: Any) -> ConditionalNode:
    return ConditionalNode(id="c", cases=cases, **settings)


def test_the_first_case_that_holds_decides_and_its_name_is_the_reason() -> None:
    node = conditional(CaseSpec(when=NO, to="a"), CaseSpec(when=YES, to="b", name="big"), CaseSpec(when=YES, to="c"))
    assert evaluate(node, SEEN, means()).output == {"targets": ["b"], "reason": "big"}


def test_the_name_of_a_case_is_no_target() -> None:
    node = conditional(CaseSpec(when=YES, to="b", name="another"))
    route = evaluate(node, SEEN, means()).route
    assert route is not None
    assert route.targets == ("b",)


def test_all_cases_that_hold_decide_together() -> None:
    node = conditional(
        CaseSpec(when=YES, to="a"), CaseSpec(when=NO, to="b"), CaseSpec(when=YES, to="c"), evaluate="all"
    )
    assert evaluate(node, SEEN, means()).output == {"targets": ["a", "c"], "reason": "case 1, case 3"}


def test_a_conditional_without_a_case_that_holds_fails_unless_it_has_a_default() -> None:
    with pytest.raises(NodeFault) as caught:
        evaluate(conditional(CaseSpec(when=NO, to="a")), SEEN, means())
    assert caught.value.failure is FailureClass.NO_MATCH
    with_default = conditional(CaseSpec(when=NO, to="a"), default="d")
    assert evaluate(with_default, SEEN, means()).output == {"targets": ["d"], "reason": "default"}


FALSY: list[JsonValue] = [None, False, 0, 0.0, "", [], {}]


@pytest.mark.parametrize("value", FALSY)
def test_a_path_holds_as_python_sees_its_value(value: JsonValue) -> None:
    node = conditional(CaseSpec(when=Expression.of("v"), to="a"), default="d")
    assert evaluate(node, Seen(vars={"v": value}), means()).output == {"targets": ["d"], "reason": "default"}
    assert evaluate(node, Seen(vars={"v": "false"}), means()).output == {"targets": ["a"], "reason": "case 1"}


def by(function: Callable[[Any], object]) -> tuple[ConditionalNode, Any]:
    node = conditional(CaseSpec(when=Expression(kind="function", text="mine"), to="a"), default="d")
    return node, means({"mine": function})


def test_a_function_decides_with_the_envelope() -> None:
    node, brought = by(lambda envelope: envelope.get("n") == 5)
    assert evaluate(node, SEEN, brought).output == {"targets": ["a"], "reason": "case 1"}


def test_what_a_function_raises_is_not_changed() -> None:
    def broken(envelope: object) -> bool:
        raise KeyError("gone")

    node, brought = by(broken)
    with pytest.raises(KeyError, match="gone"):
        evaluate(node, SEEN, brought)


async def later(envelope: object) -> bool:
    return True


def test_a_function_that_is_async_or_was_not_brought_is_a_fault() -> None:
    node, brought = by(later)
    with pytest.raises(NodeFault, match="mine is async"):
        evaluate(node, SEEN, brought)
    with pytest.raises(NodeFault, match="nobody brought the function mine: the workflow has nothing at"):
        evaluate(node, SEEN, means())


def test_an_expression_gets_the_roots_that_it_names_as_variables() -> None:
    node = conditional(CaseSpec(when=Expression(kind="cel", text="vars.n > index"), to="a"), default="d")
    seen = replace(SEEN, index=4, item={"never": "read"})
    assert evaluate(
        node, seen, means(expressions={"vars.n > index": lambda given: given == {"vars": SEEN.vars, "index": 4}})
    ).output == {"targets": ["a"], "reason": "case 1"}
    with pytest.raises(NodeFault, match="cannot be compiled"):
        evaluate(node, seen, means())
