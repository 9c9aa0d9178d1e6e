"""The contract of CEL expressions: plain ones have the values that CEL says, hostile ones are refused at once."""

import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.errors import MissingExtra
from steptrail.infrastructure.flow.cel import LONGEST_SOURCE, CelExpressions

CEL = CelExpressions()

VARIABLES: dict[str, JsonValue] = {
    "vars": {
        "n": 5,
        "f": 4.5,
        "s": "abc",
        "l": [1, 2, 3],
        "m": {"k": None, "deep": {"x": "y"}},
        "no": False,
        "none": None,
        "a-b": 1,
        "big": 2**63 - 1,
        "bigger": 2**64,
        "nul": "a\0b",
        "half": "\ud800",
        "many": list(range(1000)),
    },
    "input": {"topic": "tea"},
    "item": {"score": 3},
    "index": 2,
    "errors": [{"node_id": "n", "kind": "tool"}],
}

PLAIN: list[tuple[str, JsonValue]] = [
    ("vars.n > 4", True),
    ("vars.n >= 4.5 && vars.f < 5", True),
    ("size(vars.s) > 400", False),
    ("vars.s.startsWith('a') ? 'yes' : 'no'", "yes"),
    ("has(vars.gone) || vars.none == null", True),
    ("vars.m.k == null", True),
    ("vars.m.deep.x + '!'", "y!"),
    ("vars['a-b'] + 1", 2),
    ("vars.l.map(x, x * 2)", [2, 4, 6]),
    ("vars.l.filter(x, x > 1).size()", 2),
    ("vars.l.exists(x, x == 3)", True),
    ("vars.n in [1, 5]", True),
    ("{'a': [1, 2.5, null, true]}", {"a": [1, 2.5, None, True]}),
    ("input.topic", "tea"),
    ("item.score > index", True),
    ("errors.exists(e, e.kind == 'tool')", True),
    ("vars.big", 2**63 - 1),
    ("vars.s.matches('^a.c$')", True),
    ("string(vars.n) + vars.s", "5abc"),
]

UNUSABLE = [
    "",
    "1 ==",
    "gone > 1",
    "open('/etc/passwd')",
    "vars.n = 1",
    "9223372036854775808",
    "'\\ud800'",
    "(" * 900 + "1" + ")" * 900,
    "[" * 900 + "]" * 900,
    "+".join(["1"] * 20_000),
    " " * LONGEST_SOURCE + "1",
    "[vars.s]" + ".map(a, a + a)" * 24 + "[0]",
    "[vars.s]" + ".map(a, [a, a])" * 24 + "[0]",
    "[vars.s].map(a, " + "a + " * 400 + "a)",
    "vars.s\ud800",
]

WRONG = [
    "vars.gone == 1",
    "vars.gone.further",
    "1 / 0 > 2",
    "vars.s + vars.n",
    "9223372036854775807 + 1",
    "[1, 2][5]",
    "vars.bigger > 1",
    "vars.nul == 'a'",
    "vars.half",
    "int('x')",
    "1.0 / 0.0",
    "timestamp('2020-01-01T00:00:00Z')",
    "b'abc'",
    "type(1)",
    "{1: 2}",
    "vars.s.matches('(')",
    "vars.many.all(a, vars.many.all(b, vars.many.all(c, a + b + c >= 0)))",
]


@pytest.mark.parametrize(("source", "value"), PLAIN)
def test_a_plain_source_has_its_value(source: str, value: JsonValue) -> None:
    assert CEL.evaluate(source, VARIABLES, is_condition=False) == value


@pytest.mark.parametrize("source", UNUSABLE)
def test_a_source_that_cannot_be_used_is_a_fault_of_configuration(source: str) -> None:
    with pytest.raises(NodeFault) as caught:
        CEL.evaluate(source, VARIABLES, is_condition=False)
    assert caught.value.failure is FailureClass.CONFIG
    with pytest.raises(NodeFault):
        CEL.check(source, is_condition=False)


@pytest.mark.parametrize("source", WRONG)
def test_a_source_without_a_value_is_a_fault_of_validation(source: str) -> None:
    CEL.check(source, is_condition=False)
    with pytest.raises(NodeFault) as caught:
        CEL.evaluate(source, VARIABLES, is_condition=False)
    assert (caught.value.failure, caught.value.details) == (FailureClass.VALIDATION, {"expression": source})


def test_a_fault_names_the_column_and_shows_the_source() -> None:
    with pytest.raises(NodeFault, match=r"'1 \+ gone': column 5: undeclared reference to 'gone'") as caught:
        CEL.check("1 + gone", is_condition=False)
    assert caught.value.details == {"line": 1, "column": 5}


@pytest.mark.parametrize("source", ["1 + 1", "'text'", "[true]", "size(vars.s)"])
def test_a_condition_that_is_never_true_or_false_is_a_fault_of_configuration(source: str) -> None:
    with pytest.raises(NodeFault, match="a condition is true or false") as caught:
        CEL.check(source, is_condition=True)
    assert caught.value.failure is FailureClass.CONFIG


def test_a_condition_whose_type_shows_later_has_to_be_true_or_false_then() -> None:
    assert CEL.evaluate("vars.no", VARIABLES, is_condition=True) is False
    with pytest.raises(NodeFault, match="it is int") as caught:
        CEL.evaluate("vars.n", VARIABLES, is_condition=True)
    assert caught.value.failure is FailureClass.VALIDATION


class Watched(dict[str, Any]):
    """Variables that note what is read of them."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.read = set[str]()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("vars.a > 1", {"a"}),
        ("vars . a + vars [ 'b' ] > 1", {"a", "b"}),
        ("item.vars == 1 || vars.b > 1", {"b"}),
        ("has(vars.gone)", set[str]()),
        ("index > 1", set[str]()),
    ],
)
def test_only_the_variables_that_a_source_names_are_handed_over(source: str, read: set[str]) -> None:
    watched = Watched({"a": 1, "b": 2, "c": 3})
    CEL.evaluate(source, {"vars": watched, "index": 1, "item": {"vars": 1}}, is_condition=True)
    assert watched.read == read


@pytest.mark.parametrize("source", ["size(vars) == 3", "vars[input] == 1", "'a' in vars", "vars.exists(k, k == 'a')"])
def test_a_source_that_takes_all_variables_gets_them(source: str) -> None:
    assert CEL.evaluate(source, {"vars": {"a": 1, "b": 2, "c": 3}, "input": "a"}, is_condition=True) is True


def test_what_is_named_with_a_nul_is_refused_and_a_backslash_is_not() -> None:
    assert CEL.evaluate("vars.t.size()", {"vars": {"t": "\\u0000"}}, is_condition=False) == 6
    with pytest.raises(NodeFault, match="NUL"):
        CEL.evaluate("vars.t", {"vars": {"t": [{"a\0": 1}]}}, is_condition=False)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)
    with pytest.raises(MissingExtra, match=r"pip install 'steptrail\[flow\]'"):
        CelExpressions()


@given(st.text(alphabet="vars.nlmx()[]{}+-*/<>=!&|?:,'\" 0123456789map", max_size=40))
def test_any_text_has_a_value_or_a_fault(source: str) -> None:
    try:
        CEL.evaluate(source, VARIABLES, is_condition=False)
    except NodeFault:
        pass
