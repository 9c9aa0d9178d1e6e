"""Gates and guardians: a run passes, is blocked, goes on all the same, or goes somewhere else."""

from typing import Any

import pytest

from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.gating import finding
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.nodes import CheckSpec, Expression, GateNode, GuardianNode, OnFail
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from tests.unit.flow.means import means

SEEN = Seen(
    vars={"ok": True, "no": False, "title": "abc", "n": 5, "cents": 1_234_568, "list": [1], "empty": "", "null": None},
    successors=("next", "repair", "other"),
)


def gate(when: str | None, **settings: Any) -> GateNode:
    return GateNode(id="g", when=None if when is None else Expression.of(when), **settings)


@pytest.mark.parametrize("when", [None, "ok", "vars.title"])
def test_a_gate_that_holds_lets_the_run_pass(when: str | None) -> None:
    result = evaluate(gate(when), SEEN, means())
    assert (result.output, result.route) == ({"passed": True, "action": "pass"}, None)


@pytest.mark.parametrize("when", ["no", "missing", "vars.null"])
def test_a_gate_that_does_not_hold_blocks(when: str) -> None:
    with pytest.raises(NodeFault) as caught:
        evaluate(gate(when), SEEN, means())
    assert (caught.value.failure, caught.value.details) == (FailureClass.BLOCKED, {"when": when})
    with pytest.raises(NodeFault, match="not today") as caught:
        evaluate(gate(when, message="not today"), SEEN, means())
    # A misspelt path is told from a no.
    assert ("(there is nothing at missing)" in caught.value.message) == (when == "missing")


def test_a_gate_that_skips_goes_on_and_says_so() -> None:
    result = evaluate(gate("no", on_fail="skip"), SEEN, means())
    assert result.route is None
    assert result.output == {"passed": False, "action": "skip", "message": "no does not hold"}


def test_a_redirect_leads_to_its_node_alone_and_a_pass_to_all_others() -> None:
    node = gate("no", on_fail="redirect", redirect="repair")
    assert evaluate(node, SEEN, means()).route == Route(targets=("repair",), reason="no does not hold")
    node = gate("ok", on_fail="redirect", redirect="repair")
    assert evaluate(node, SEEN, means()).route == Route(targets=("next", "other"), reason="passed")


def guardian(*checks: CheckSpec, **settings: Any) -> GuardianNode:
    return GuardianNode(id="g", checks=checks, **settings)


BAD = CheckSpec(kind="required", path="missing")
WORSE = CheckSpec(kind="type", path="n", settings={"type": "string"}, message="n is to be a text")


def test_a_guardian_passes_when_all_checks_hold() -> None:
    result = evaluate(guardian(CheckSpec(kind="required", path="title")), SEEN, means())
    assert result.output == {"passed": True, "action": "pass", "findings": []}


def test_a_guardian_that_blocks_tells_all_that_it_found() -> None:
    with pytest.raises(NodeFault, match="missing: it is missing; n is to be a text") as caught:
        evaluate(guardian(BAD, WORSE), SEEN, means())
    assert caught.value.failure is FailureClass.BLOCKED
    assert caught.value.details["findings"] == [
        {"check": "required", "path": "missing", "message": "missing: it is missing"},
        {"check": "type", "path": "n", "message": "n is to be a text"},
    ]


def test_the_redirect_of_a_guardian_is_honoured() -> None:
    result = evaluate(guardian(BAD, on_fail="redirect", redirect="repair"), SEEN, means())
    assert result.route is not None
    assert result.route.targets == ("repair",)


def test_a_guardian_that_skips_writes_its_findings() -> None:
    result = evaluate(guardian(BAD, on_fail=OnFail.SKIP), SEEN, means())
    assert isinstance(result.output, dict)
    assert result.output["findings"]


def found(kind: Any, path: str | None, /, **settings: JsonValue) -> str | None:
    return finding(CheckSpec(kind=kind, path=path, settings=settings), SEEN, means())


@pytest.mark.parametrize(
    ("kind", "path", "settings"),
    [
        ("required", "n", {}),
        ("length", "title", {"min": 3, "max": 3}),
        ("length", "list", {"max": 1}),
        ("range", "n", {"min": 5, "max": 5}),
        ("pattern", "title", {"pattern": "b"}),
        ("enum", "n", {"values": [5.0]}),
        ("enum", "null", {"values": [None]}),
        ("type", "n", {"type": "integer"}),
        ("type", "null", {"type": "null"}),
        ("schema", "title", {"schema": {"type": "str"}}),
    ],
)
def test_a_check_holds(kind: str, path: str, settings: dict[str, JsonValue]) -> None:
    assert found(kind, path, **settings) is None


@pytest.mark.parametrize(
    ("kind", "path", "settings", "said"),
    [
        ("required", "empty", {}, "empty: it is missing"),
        ("required", "null", {}, "null: it is missing"),
        ("length", "title", {"max": 2}, "title: its length is 3, more than 2"),
        ("length", "n", {"max": 2}, "n: it has no length"),
        ("range", "n", {"min": 6}, "n: it is 5, less than 6"),
        ("range", "cents", {"max": 1_234_567}, "cents: it is 1234568, more than 1234567"),
        ("range", "cents", {"min": 1_234_568.5}, "cents: it is 1234568, less than 1234568.5"),
        ("range", "title", {"min": 6}, "title: it is no number"),
        ("range", "ok", {"min": 0}, "ok: it is no number"),
        ("pattern", "title", {"pattern": "^b"}, "title: it does not fit '^b'"),
        ("pattern", "n", {"pattern": "5"}, "n: it does not fit '5'"),
        ("enum", "title", {"values": ["a", 1]}, 'title: it is none of ["a",1]'),
        ("enum", "ok", {"values": [1]}, "ok: it is none of [1]"),
        ("type", "ok", {"type": "number"}, "ok: it is not of the type number"),
        ("schema", "n", {"schema": {"type": "str"}}, "n: it is no str"),
    ],
)
def test_a_check_says_what_is_wrong(kind: str, path: str, settings: dict[str, JsonValue], said: str) -> None:
    assert found(kind, path, **settings) == said


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("length", {"max": 1}),
        ("range", {"min": 1}),
        ("pattern", {"pattern": "a"}),
        ("enum", {"values": []}),
        ("type", {"type": "string"}),
        ("schema", {"schema": {"type": "str"}}),
    ],
)
def test_a_missing_value_is_wrong_only_where_it_is_required(kind: str, settings: dict[str, JsonValue]) -> None:
    assert found(kind, "missing", **settings) is None
    assert found("required", "missing") == "missing: it is missing"


@pytest.mark.parametrize("pattern", ["(", "a" * 1001])
def test_a_check_that_cannot_be_done_is_a_fault(pattern: str) -> None:
    with pytest.raises(NodeFault) as caught:
        found("pattern", "title", pattern=pattern)
    assert caught.value.failure is FailureClass.CONFIG


def test_an_expression_sees_the_value_as_item_and_a_function_gets_it() -> None:
    cel = CheckSpec(kind="expr", path="n", expression=Expression(kind="cel", text="item == 5"))
    assert finding(cel, SEEN, means(expressions={"item == 5": lambda variables: variables == {"item": 5}})) is None
    own = CheckSpec(kind="expr", path="null", expression=Expression(kind="function", text="f"))
    assert finding(own, SEEN, means({"f": lambda value: value is None})) is None
    whole = CheckSpec(kind="expr", expression=Expression(kind="function", text="f"))
    assert finding(whole, SEEN, means({"f": lambda envelope: envelope.get("n") == 6})) is not None
