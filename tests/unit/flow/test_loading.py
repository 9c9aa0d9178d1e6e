"""Workflows as texts: what is read, what is refused and where, and that a definition survives."""

import json
import sys
from importlib import import_module
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from msgspec import structs

from steptrail import AgentBuilder
from steptrail.domain.flow.nodes import Node
from steptrail.errors import InvalidWorkflow, MissingExtra
from steptrail.infrastructure.flow.document import FlowDocument
from steptrail.infrastructure.flow.loading import written_flow
from steptrail.infrastructure.flow.schemas import JsonSchemas
from steptrail.infrastructure.flow.strict_yaml import read_yaml
from steptrail.infrastructure.flow.writing import flow_document
from steptrail.testing import ScriptedModel
from steptrail.workflow import (
    BuiltWorkflow,
    Edge,
    EdgeWhen,
    Expression,
    OnError,
    RetryPolicy,
    check_flow,
    flow_schema,
    flow_text,
    load_flow,
)
from tests.profile import examples
from tests.unit.flow.drawn_workflows import USE, agent, compute, drawn_workflows, is_big, model

PUBLISH = """\
steptrail: flow/v1
name: publish
options: {concurrency: 4, timeout: 3600}
nodes:
  - {id: parse, kind: function, use: parse, output: doc}
  - {id: summary, kind: llm, use: small, prompt: "Summarise {{ vars.doc.text }}", retry: {max_attempts: 5}}
  - {id: repair, kind: agent, use: editor, prompt: "Shorten {{ input }}", on_error: continue, continue_on: [child]}
edges: ["parse > summary", {source: summary, target: repair, when: error}]
"""

BROUGHT = {"parse": compute, "small": model, "editor": agent}


def test_the_example_of_the_design_is_read() -> None:
    flow = load_flow(PUBLISH, use=BROUGHT)
    assert (flow.name, flow.definition.entry, flow.code["repair"]) == ("publish", ("parse",), agent)
    parse, summary, repair = flow.definition.nodes
    assert (parse.output, summary.on_error, repair.on_error) == ("doc", OnError.RECORD, OnError.CONTINUE)
    assert summary.retry == RetryPolicy(max_attempts=5)
    assert flow.definition.edges == (
        Edge(source="parse", target="summary"),
        Edge(source="summary", target="repair", when=EdgeWhen.ERROR),
    )
    assert flow.definition.options.concurrency == 4


def test_json_says_the_same_as_yaml() -> None:
    text = json.dumps(yaml.safe_load(PUBLISH))
    assert load_flow(text, use=BROUGHT).definition == load_flow(PUBLISH, use=BROUGHT).definition


@given(drawn_workflows())
def test_a_definition_survives_yaml_and_json(flow: BuiltWorkflow) -> None:
    text = flow_text(flow.definition)
    assert load_flow(text, USE).definition == flow.definition
    assert load_flow(json.dumps(flow_document(flow.definition)), USE).definition == flow.definition


@given(drawn_workflows())
@examples(20)
def test_a_text_is_checked_and_shown_without_the_code(flow: BuiltWorkflow) -> None:
    text = flow_text(flow.definition)
    assert [each for each in check_flow(text) if each.severity == "error"] == []
    written = written_flow(text)
    assert [(type(node), node.id, node.output) for node in written.nodes] == [
        (type(node), node.id, node.output) for node in flow.definition.nodes
    ]
    assert (written.edges, written.entry) == (flow.definition.edges, flow.definition.entry)


def test_a_context_is_refused_beside_the_code_of_an_agent_that_is_told_nothing() -> None:
    text = """
steptrail: flow/v1
name: w
nodes:
  - {id: a, kind: agent, use: clerk, prompt: Go., context: {tenant: acme}}
"""
    clerk = AgentBuilder("clerk").with_model(model)
    assert check_flow(text) == ()
    assert load_flow(text, use={"clerk": clerk.with_context(dict[str, str]).build()}).name == "w"
    with pytest.raises(InvalidWorkflow, match="agent 'clerk' is told nothing of its runs"):
        load_flow(text, use={"clerk": clerk.build()})


def test_code_that_is_missing_or_does_not_fit_hides_no_fault_of_the_graph() -> None:
    text = PUBLISH.replace("target: repair", "target: gone")
    assert [each.code for each in check_flow(text)] == ["GR-001"]
    assert [each.code for each in check_flow(text, {})] == ["FL-105", "FL-105", "FL-105", "GR-001"]
    assert [each.code for each in check_flow(text, {**BROUGHT, "parse": 7})] == ["FL-110", "GR-001"]
    with pytest.raises(InvalidWorkflow):
        load_flow(PUBLISH)


@pytest.fixture(scope="module")
def schema() -> Any:
    """What checks values against the schema for editors, which itself is checked once."""
    validator = import_module("jsonschema").Draft202012Validator
    validator.check_schema(flow_schema())
    return validator(flow_schema())


@given(flow=drawn_workflows())
@examples(10)
def test_the_schema_takes_what_is_written(schema: Any, flow: BuiltWorkflow) -> None:
    assert list(schema.iter_errors(flow_document(flow.definition))) == []


def test_a_definition_with_code_of_the_same_node_survives_with_it() -> None:
    flow = load_flow(PUBLISH, use=BROUGHT)
    again = load_flow(flow_text(flow.definition), use={**flow.code})
    assert (again.digest, again.code) == (flow.digest, flow.code)


def test_every_setting_of_every_kind_has_its_place_in_the_text() -> None:
    forms = [each for each in FlowDocument.model_json_schema()["$defs"].values() if each["title"].endswith("Entry")]
    properties = [form["properties"] for form in forms if "kind" in form["properties"]]
    by_kind = {each["kind"].get("const"): each for each in properties}
    flattened = {"settings", "model", "tool", "agent", "flow", "function"}
    for kind in get_args(Node):
        form = by_kind[str(kind.__struct_config__.tag)]
        fields = {each.name for each in structs.fields(kind)} - flattened
        instant = {"retry", "timeout", "budget", "cache", "on_unknown"}
        assert fields - form.keys() <= instant, kind
        if "use" in form and kind.__struct_config__.tag != "merge":
            assert instant <= form.keys(), kind


def test_what_decides_is_a_text_an_expression_or_a_function_that_is_brought() -> None:
    text = """\
steptrail: flow/v1
name: gates
nodes:
  - {id: a, kind: gate, when: vars.ok}
  - {id: b, kind: gate, when: {cel: vars.ok}}
  - {id: c, kind: gate, when: {use: big}}
edges: [a > b > c]
"""
    flow = load_flow(text, use={"big": is_big})
    whens = [getattr(node, "when") for node in flow.definition.nodes]  # noqa: B009 - nodes of other kinds have none
    assert whens[:2] == [Expression(kind="path", text="vars.ok"), Expression(kind="cel", text="vars.ok")]
    assert flow.functions["c"] == {whens[2].text: is_big}
    assert len(flow.definition.edges) == 2


HEAD = "steptrail: flow/v1\nname: x\nnodes:\n"

WRONG: dict[str, tuple[str, list[tuple[str, str, int | None, int | None]]]] = {
    "no version": ("name: x\nnodes: []\n", [("FL-110", "", 1, 1)]),
    "another version": ("steptrail: flow/v2\nname: x\nnodes: []", [("GR-010", "steptrail", 1, 1)]),
    "an unknown kind": (HEAD + "  - {id: a, kind: quiz}", [("GR-003", "nodes[0].kind", 4, 13)]),
    "no kind": (HEAD + "  - {id: a}", [("GR-003", "nodes[0]", 4, 5)]),
    "an unknown key": (HEAD + "  - id: a\n    kind: noop\n    colour: red", [("GR-020", "nodes[0].colour", 6, 5)]),
    "an unknown key on top": (HEAD + "  - {id: a, kind: noop}\nport: 1", [("GR-020", "port", 5, 1)]),
    "a text for a number": (HEAD + "  - {id: a, kind: gate, critical: 'no'}", [("FL-110", "nodes[0].critical", 4, 25)]),
    "an unknown class": (
        HEAD + "  - {id: a, kind: noop, continue_on: [timeout, tea]}",
        [("FL-110", "nodes[0].continue_on[1]", 4, 48)],
    ),
    "no tries": (
        HEAD + "  - {id: a, kind: function, use: f, retry: {max_attempts: 0}}",
        [("FL-107", "nodes[0].retry", 4, 37)],
    ),
    "no seconds": (
        HEAD + "  - {id: a, kind: function, use: f, timeout: -1}",
        [("FL-107", "nodes[0].timeout", 4, 37)],
    ),
    "an unknown use": (HEAD + "  - {id: a, kind: function, use: g}", [("FL-105", "nodes[0].use", 4, 29)]),
    "an unknown use that decides": (
        HEAD + "  - {id: a, kind: guardian, checks: [{kind: expr, when: {use: g}}]}",
        [("FL-105", "nodes[0].checks[0].when.use", 4, 58)],
    ),
    "resources that nobody brings": (
        "resources: db\n" + HEAD + "  - {id: a, kind: noop}",
        [("FL-105", "resources", 1, 1)],
    ),
    "resources that open nothing": (
        "resources: n\n" + HEAD + "  - {id: a, kind: noop}",
        [("FL-110", "resources", 1, 1)],
    ),
    "an expression": (HEAD + "  - {id: a, kind: gate, when: vars.a >}", [("FL-106", "nodes[0].when", 4, 25)]),
    "an expression that is no condition": (
        HEAD + "  - {id: a, kind: conditional, cases: [{when: 1 + 1, to: b}]}\n  - {id: b, kind: noop}\nedges: [a > b]",
        [("CN-003", "nodes[0]", 4, 5), ("FL-106", "nodes[0].cases[0].when", 4, 41)],
    ),
    "no options of a choice": (HEAD + "  - {id: a, kind: human, type: choice}", [("FL-110", "nodes[0].options", 4, 5)]),
    "an edge to nowhere": (
        HEAD + "  - {id: a, kind: noop}\nedges:\n  - {source: a, target: b}\n  - a > c",
        [("GR-001", "edges[0].target", 6, 17), ("GR-001", "edges[1]", 7, 5)],
    ),
    "an edge without an end": (
        HEAD + "  - {id: a, kind: noop}\nedges: [{source: a}]",
        [("FL-110", "edges[0]", 5, 9)],
    ),
    "half an edge": (HEAD + "  - {id: a, kind: noop}\nedges: ['a >']", [("FL-110", "edges[0]", 5, 9)]),
    "a tag": (HEAD + "  - !!python/object:os.system {id: a}", [("FL-100", "nodes[0]", 4, 5)]),
    "an anchor and an alias": (
        HEAD + "  - &x {id: a, kind: noop}\n  - *x",
        [("FL-100", "nodes[0]", 4, 5), ("FL-100", "nodes[1]", 5, 5)],
    ),
    "a key twice": (HEAD + "  - {id: a, id: b, kind: noop}", [("FL-100", "nodes[0].id", 4, 13)]),
    "a merge key": (HEAD + "  - {<<: {id: a}, kind: noop}", [("FL-100", "nodes[0]", 4, 6)]),
    "a word as a key": ("on: error", [("FL-100", "", 1, 1)]),
    "a word as a value": (HEAD + "  - {id: a, kind: noop, critical: Off}", [("FL-100", "nodes[0].critical", 4, 35)]),
    "an octal number": ("name: 0123", [("FL-100", "name", 1, 7)]),
    "a number of minutes": ("name: 12:30", [("FL-100", "name", 1, 7)]),
    "a number as a key": ("1: a", [("FL-100", "", 1, 1)]),
    "no number": ("name: .nan", [("FL-100", "name", 1, 7)]),
    "a number that is too large": ("name: 1e999", [("FL-100", "name", 1, 7)]),
    "nearly a number of a million dashes": ("- 1" + "_" * 1_000_000 + "x", [("FL-110", "", 1, 1)]),
    "two documents": ("name: x\n---\nname: y\n", [("FL-100", "", 2, 1)]),
    "broken yaml": ("name: [x\nnodes: ]", [("FL-100", "", 2, 6)]),
    "a list": ("- a", [("FL-110", "", 1, 1)]),
    "nothing": ("", [("FL-110", "", None, None)]),
    "broken json": ('{"name": }', [("FL-100", "", 1, 10)]),
    "a key twice in json": ('{"name": "x",\n "name": "y"}', [("FL-100", "name", 2, 2)]),
    "no numbers of json": ('{"name": NaN, "a": [0, 1e999]}', [("FL-100", "name", 1, 10), ("FL-100", "a[1]", 1, 24)]),
    "a long number in json": (f'{{"a": {{"b": -{"1" * 5_000}}}}}', [("FL-100", "a.b", 1, 13)]),
    "half a character in json": ('{"a": "\\ud83d", "b": "\\ud83d\\ude00"}', [("FL-100", "a", 1, 7)]),
    "a fault in json that is no yaml": (
        '{"steptrail": "flow/v1", "name": "\\ud83d\\ude00 \u2028",\n\t"nodes": [{"id": "a", "kind": "noop", "x": 1}]}',
        [("GR-020", "nodes[0].x", 2, 40)],
    ),
    "a line end of YAML 1.1": ("name: x\nresult: 'a\u2028b'", [("FL-100", "", 2, 11)]),
    "half a character": ("name: \ud800", [("FL-100", "", 1, 1)]),
    "deep nesting": ("a: " + "[" * 200 + "]" * 200, [("FL-100", "a[0][0]", 1, 104)]),
    "deep json": ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", [("FL-100", "", 1, 1)]),
    "too many bytes": ("a: " + "x" * 1_048_576, [("FL-100", "", 1, 1)]),
    "too many nodes": ("nodes: [" + "1," * 20_001 + "]", [("FL-100", "nodes", 1, 1)]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_is_told_with_its_code_and_place(fault: str) -> None:
    text, expected = WRONG[fault]
    use = {"f": compute, "n": 3}
    found = check_flow(text, use)
    assert [(each.code, each.path, each.line, each.column) for each in found] == expected
    with pytest.raises(InvalidWorkflow) as caught:
        load_flow(text, use)
    assert caught.value.diagnostics == found


def test_a_name_that_is_nearly_brought_is_hinted_at() -> None:
    (found,) = check_flow(PUBLISH.replace("use: editor", "use: editr"), use=BROUGHT)
    assert str(found) == (
        "FL-105 7:31 nodes[2].use: nothing is brought under the name 'editr' (did you mean 'editor'?)"
    )


def test_a_warning_does_not_keep_a_workflow_from_being_built() -> None:
    text = HEAD + "  - {id: a, kind: noop}\n  - {id: b, kind: noop}\n  - {id: c, kind: noop}\nedges: [a > b]"
    (found,) = check_flow(text)
    assert (found.code, found.severity, found.path, found.line) == ("GR-002", "warning", "nodes[2]", 6)
    flow = load_flow(text)
    assert (flow.definition.entry, flow.warnings) == (("a", "c"), (found,))


def test_all_faults_are_told_at_once_in_the_order_of_the_text() -> None:
    text = (
        HEAD
        + "  - {id: a, kind: gate, when: 1 +}\n  - {id: b, kind: function, use: g}\n  - {id: c, kind: noop, id2: 1}"
    )
    assert [each.code for each in check_flow(text)] == ["GR-020"]
    found = check_flow(text.replace(", id2: 1", ""), {})
    assert [each.code for each in found] == ["GR-002", "FL-106", "GR-002", "FL-105", "GR-002"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("  - {id: n%d, kind: function, use: gone}", "FL-105"),
        ("  - {id: n%d, kind: gate, when: 3}", "FL-110"),
        ("  - {id: n%d, kind: noop, x: 1}", "GR-020"),
    ],
)
@pytest.mark.slow("reads thousands of faults")
def test_thousands_of_faults_are_all_told(line: str, code: str) -> None:
    found = check_flow(HEAD + "\n".join(line % number for number in range(3_000)), {})
    assert [each.code for each in found if each.severity == "error"] == [code] * 3_000
    assert [each.line for each in found if each.severity == "error"] == list(range(4, 3_004))


@pytest.mark.slow("reads thousands of edges")
def test_thousands_of_edges_to_nowhere_and_of_keys_are_told() -> None:
    edges = [f"a > n{number}" for number in range(3_000)]
    text = json.dumps({"steptrail": "flow/v1", "name": "x", "nodes": [{"id": "a", "kind": "noop"}], "edges": edges})
    assert [each.path for each in check_flow(text)] == [f"edges[{number}]" for number in range(3_000)]
    assert len(check_flow(json.dumps({f"k{number}": 1 for number in range(30_000)}))) == 30_003


def test_nine_levels_of_nine_aliases_are_refused_before_they_grow() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    found = check_flow("\n".join(lines))
    assert len(found) == 9 + 8 * 9
    assert {each.code for each in found} == {"FL-100"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 'yes'", "yes"),
        ('a: "0123"', "0123"),
        ("a: 0o17", 15),
        ("a: 0x1F", 31),
        ("a: -0", 0),
        ("a: +12", 12),
        ("a: 1.5e3", 1500.0),
        ("a: .5", 0.5),
        ("a: ~", None),
        ("a:", None),
        ("a: True", True),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: n", "n"),
        ("a: yesterday", "yesterday"),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: 😀", "😀"),
        ('a: "\\u0085"', "\x85"),
    ],
)
def test_yaml_is_read_as_its_version_1_2_says(text: str, value: object) -> None:
    read = read_yaml(text)
    assert (read.value, read.diagnostics) == ({"a": value}, ())


@pytest.mark.parametrize("text", [PUBLISH, HEAD + "  - {id: a, kind: noop}"])
def test_the_schema_takes_what_is_read(schema: Any, text: str) -> None:
    assert list(schema.iter_errors(read_yaml(text).value)) == []


def test_the_schema_refuses_unknown_keys() -> None:
    problems = JsonSchemas().problems(flow_schema(), read_yaml(PUBLISH + "port: 1\n").value)
    assert problems


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"steptrail\[flow\]"):
        load_flow(PUBLISH, use=BROUGHT)
    text: Any = {"steptrail": "flow/v1", "name": "x", "nodes": [{"id": "a", "kind": "llm", "use": "m", "prompt": "p"}]}
    assert load_flow(json.dumps(text), use={"m": ScriptedModel([])}).name == "x"
