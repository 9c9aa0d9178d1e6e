"""What is wrong in the texts of nodes is told where a workflow is built or read, and not when a node runs."""

import sys
from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, tool
from steptrail.errors import ConfigurationError, InvalidWorkflow
from steptrail.infrastructure.flow.means import flow_means
from steptrail.testing import ScriptedModel
from steptrail.tools import ToolSpec
from steptrail.workflow import Cache, Case, Check, Condition, Rule, Workflow, check_flow, load_flow

MODEL = ScriptedModel([])
NO_SCHEMA: dict[str, object] = {"type": "nonsense"}


@tool
def note(text: str, more: object = None) -> str:
    """Note a text."""
    return text


class Answer(BaseModel):
    """An answer."""

    title: str


def flow() -> Workflow:
    return Workflow("w")


def faults(written: Workflow) -> list[tuple[str, str]]:
    """Return the code and the place of each fault for which `build` refuses a workflow."""
    with pytest.raises(InvalidWorkflow) as caught:
        written.build()
    return [(each.code, each.path) for each in caught.value.diagnostics if each.severity == "error"]


def _each_kind(template: str) -> Workflow:
    return (
        flow()
        .llm("a", MODEL, prompt=template, system=template)
        .llm("b", MODEL, messages=[{"role": "user", "content": template}])
        .tool("c", note, args={"text": template, "more": [{"deep": template}]})
        .flow("d", flow().noop("x").build(), input={"k": template})
        .webhook("e", f"https://example.org/{template}", body=[template], headers={"x": template})
        .llm_router("f", MODEL, prompt=template, system=template, routes={"yes": "g"}, default="g")
        .human("g", prompt=template)
        .transform("h", "template", template=template)
        .map("i", over="vars.list", tool=note, args={"text": template})
        .chain("a", "b", "c", "d", "e", "f", "g", "h", "i")
    )


PLACES = [
    "nodes[0].prompt",
    "nodes[0].system",
    "nodes[1].messages[0].content",
    "nodes[2].args.text",
    "nodes[2].args.more[0].deep",
    "nodes[3].input.k",
    "nodes[4].url",
    "nodes[4].headers.x",
    "nodes[4].body[0]",
    "nodes[5].prompt",
    "nodes[5].system",
    "nodes[6].prompt",
    "nodes[7].template",
    "nodes[8].node.args.text",
]


@pytest.mark.parametrize("template", ["{{ vars.x", "{{ vars.x }} and {{ vars.y", "{{ vars.x | upper }}", "{{ }}"])
def test_a_template_that_cannot_be_filled_in_is_told_in_every_kind_of_node(template: str) -> None:
    assert faults(_each_kind(template)) == [("FL-111", place) for place in PLACES]


def test_the_error_names_workflow_node_field_and_text_and_says_what_to_do() -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        flow().llm("summary", MODEL, prompt="Sum up {{ vars.doc").build()
    assert str(caught.value) == (
        "workflow 'w' cannot be built:\n  FL-111 nodes[0].prompt: the prompt of 'summary' opens {{ and does not close "
        "it: '{{ vars.doc' (close it with }}, or bring braces that are meant so in a variable)"
    )


def test_a_path_that_is_written_as_a_template_is_told_because_nothing_stands_there() -> None:
    braces = "{{ vars.x }}"
    built = (
        flow()
        .map("each", over=braces, function=str)
        .filter("few", "top_n", over=braces, n=1)
        .transform("all", "flatten", source=braces)
        .noop("end")
    )
    assert faults(built) == [("FL-111", "nodes[0].over"), ("FL-111", "nodes[1].over"), ("FL-111", "nodes[2].source")]
    with pytest.raises(
        InvalidWorkflow, match=r"the over of 'each' is a path, .*: '{{ vars.x }}' \(leave out the braces\)"
    ):
        built.build()


@pytest.mark.parametrize("text", ["{ vars.x }", '{"a": {"b": 1}}', "}}", "{{ vars.x }}}", "{{ title }}", "{{vars}}"])
def test_a_text_that_can_be_filled_in_is_built(text: str) -> None:
    flow().llm("a", MODEL, prompt=text).build()


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("vras.x", "'vars'"),
        ("inputs.title", "'input'"),
        ("Input.title", "'input'"),
        ("error.0", "'errors'"),
    ],
)
def test_a_misspelt_root_is_told(path: str, advice: str) -> None:
    with pytest.raises(InvalidWorkflow, match=rf"FL-112 nodes\[0\].prompt: .*did you mean {advice}.*`vars\.") as caught:
        flow().llm("a", MODEL, prompt=f"On {{{{ {path} }}}}").build()
    assert len(caught.value.diagnostics) == 1


def test_a_variable_that_a_run_may_bring_is_a_warning_and_one_that_a_node_writes_is_none() -> None:
    text = """
steptrail: flow/v1
name: x
nodes:
  - {id: inputs, kind: transform, operation: stringify, output: inputs}
  - {id: b, kind: human, prompt: "{{ inputs }} {{ inputs_error }} {{ vars.any }} {{ brought.by.a.run }}"}
edges: [inputs > b]
"""
    (found,) = check_flow(text)
    assert (found.code, found.severity, found.path, found.line) == ("FL-112", "warning", "nodes[1].prompt", 6)
    assert "'brought'" in found.message
    assert load_flow(text).name == "x"


def test_an_item_is_told_where_there_is_none() -> None:
    written = flow().llm("a", MODEL, prompt="{{ item.title }}").tool("b", note, args={"text": "{{ index }}"})
    written.map("c", over="vars.x", model=MODEL, prompt="{{ item }} {{ index }}")
    written.transform("d", "template", template="{{ item }}", source="vars.x").chain("a", "b", "c", "d")
    assert faults(written) == [("FL-112", "nodes[0].prompt"), ("FL-112", "nodes[1].args.text")]


def test_an_expression_that_does_not_parse_is_told_in_every_kind_of_node() -> None:
    bad = "vars.x >"
    written = (
        flow()
        .gate("a", when=bad)
        .conditional("b", [Case("vars.x", to="c"), Case(bad, to="c")], default="c")
        .rule_router("c", [Rule(bad, to="d")])
        .guardian("d", [Check("expr", when=bad)])
        .filter("e", "expression", over="vars.list", expression=bad)
        .transform("f", "expr", expression=bad)
        .chain("a", "b", "c", "d", "e", "f")
    )
    assert faults(written) == [
        ("FL-106", "nodes[0].when"),
        ("FL-106", "nodes[1].cases[1].when"),
        ("FL-106", "nodes[2].rules[0].when"),
        ("FL-106", "nodes[3].checks[0].when"),
        ("FL-106", "nodes[4].expression"),
        ("FL-106", "nodes[5].expression"),
    ]


def test_an_expression_is_checked_as_what_it_decides() -> None:
    assert faults(flow().gate("a", when="size('x')")) == [("FL-106", "nodes[0].when")]
    flow().transform("a", "expr", expression="size('x')").build()
    flow().gate("a", when=lambda seen: True).build()
    flow().gate("a", when="any.path.at.all").build()


def test_a_schema_that_is_none_is_told() -> None:
    written = (
        flow()
        .llm("a", MODEL, prompt="p", schema=NO_SCHEMA)
        .human("b", type="input", schema=NO_SCHEMA)
        .guardian("c", [Check("schema", path="vars.x", schema=NO_SCHEMA)])
        .map("d", over="vars.x", model=MODEL, prompt="p", schema=NO_SCHEMA)
        .chain("a", "b", "c", "d")
    )
    places = ["nodes[0].schema", "nodes[1].schema", "nodes[2].checks[0].schema", "nodes[3].node.schema"]
    assert faults(written) == [("FL-113", place) for place in places]
    flow().llm("a", MODEL, prompt="p", schema=Answer).human("b", type="input", schema=Answer).chain("a", "b").build()


@pytest.mark.parametrize(
    "schema",
    [{"$schema": []}, {"$schema": 5}, {"$schema": "http://["}, {"$ref": "https://example.org/x"}, {"$ref": 1}],
)
def test_a_schema_of_any_shape_is_a_fault_and_no_other_error(schema: dict[str, object]) -> None:
    assert faults(flow().llm("a", MODEL, prompt="p", schema=schema)) == [("FL-113", "nodes[0].schema")]


def test_a_default_that_would_not_be_taken_is_told() -> None:
    written = flow().human("a", type="input", schema=Answer, expires=1, on_timeout="default", default={"titel": "x"})
    assert faults(written) == [("FL-110", "nodes[0].default")]
    flow().human("a", type="input", schema=Answer, expires=1, on_timeout="default", default={"title": "x"}).build()


def test_a_pattern_that_is_none_is_told() -> None:
    written = (
        flow()
        .guardian("a", [Check("pattern", path="vars.x", pattern="(")])
        .filter("b", "match", over="vars.x", pattern="(?=x)")
        .chain("a", "b")
    )
    assert faults(written) == [("FL-114", "nodes[0].checks[0].pattern"), ("FL-114", "nodes[1].pattern")]


def test_a_file_tells_all_of_them_at_once_with_their_lines() -> None:
    text = """
steptrail: flow/v1
name: x
nodes:
  - id: a
    kind: llm
    use: m
    prompt: "{{ vars.x"
    schema: {type: nonsense}
  - {id: b, kind: gate, when: "1 +"}
  - {id: c, kind: filter, operation: expression, over: vars.x, expression: {cel: "1 +"}}
  - {id: d, kind: transform, operation: template, template: "{{ inputs }}"}
  - {id: e, kind: guardian, checks: [{kind: pattern, path: vars.x, pattern: "("}]}
edges: [a > b > c > d > e]
"""
    found = [(each.code, each.path, each.line) for each in check_flow(text)]
    expected = [
        ("FL-111", "nodes[0].prompt", 8),
        ("FL-113", "nodes[0].schema", 9),
        ("FL-106", "nodes[1].when", 10),
        ("FL-106", "nodes[2].expression", 11),
        ("FL-112", "nodes[3].template", 12),
        ("FL-114", "nodes[4].checks[0].pattern", 13),
    ]
    assert found == expected
    # A node that cannot be added keeps the graph from being checked, and the other nodes are.
    misfit = text.replace('when: "1 +"', "on_fail: redirect")
    assert [(each.code, each.line) for each in check_flow(misfit) if each.line != 10] == [
        (code, line) for code, _, line in expected if line != 10
    ]


def test_what_needs_a_package_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("cel_expr_python", "cel_expr_python.cel", "httpx2", "jsonschema", "referencing"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(Workflow, "_means", flow_means().of_nodes)
    written = flow().gate("a", when="vars.x > 1").llm("b", MODEL, prompt="p", schema={"type": "object"})
    written.human("c", type="input", prompt="?", schema={"type": "object"}).gate("d", when="vars.x")
    written.webhook("e", "https://shop.example/orders").chain(*"abcde")
    with pytest.raises(InvalidWorkflow, match="install it with `pip install 'steptrail\\[flow\\]'`") as caught:
        written.build()
    assert [(each.code, each.path, each.hint) for each in caught.value.diagnostics] == [
        ("FL-115", "nodes[0].when", None),
        ("FL-115", "nodes[1].schema", None),
        ("FL-115", "nodes[2].schema", None),
        ("FL-115", "nodes[4].url", None),
    ]


@pytest.mark.parametrize(
    "parameters",
    [{"type": "array"}, {"properties": []}, {"properties": {"a": "string"}}, {"required": "a"}, {"required": [1]}],
)
def test_parameters_of_a_tool_that_are_no_schema_of_an_object_are_told(parameters: Any) -> None:
    class Given:
        spec = ToolSpec(name="given", parameters=parameters)

        async def run(self, *given: Any) -> Any:
            raise NotImplementedError

    given: Any = Given()
    said = "the parameters of the tool 'given' are no JSON schema of an object: `"
    with pytest.raises(ConfigurationError, match=said):
        flow().tool("a", given)
    with pytest.raises(ConfigurationError, match=said):
        AgentBuilder("a").with_model(MODEL).with_tools(given)


@pytest.mark.parametrize("name", ["vars.doc", "doc.title", "{{ vars.doc }}", "vars.brought", "input"])
def test_a_path_is_refused_where_a_person_is_shown_whole_variables(name: str) -> None:
    written = flow().function("read", lambda _: {}, output="doc").human("ask", show=("doc", name)).chain("read", "ask")
    assert faults(written) == [("FL-112", "nodes[1].show[1]")]


def test_a_variable_that_nobody_writes_is_told_where_a_person_would_be_shown_nothing() -> None:
    written = flow().function("read", lambda _: "", output="summary").human("ask", show=("sumary",))
    (warning,) = written.chain("read", "ask").build().warnings
    assert str(warning) == (
        "FL-112 nodes[1].show[0]: the show of 'ask' says 'sumary', and no node writes a variable of this name"
        " (name the whole variable: 'summary')"
    )


@pytest.mark.parametrize("text", ["{{ vars.mail }}", "imput.mail"])
def test_a_path_at_which_there_is_never_anything_is_refused_where_that_would_look_like_a_value(text: str) -> None:
    code = "FL-111" if "{{" in text else "FL-112"
    written = (
        flow()
        .function("a", lambda _: 1, cache=Cache(key=(text,)))
        .map("b", over="input", function=lambda _: 1, cache=Cache(key=("input", text)))
        .guardian("c", [Check("length", text, max=9)])
        .rule_router("d", [Rule(Condition(path=text, operator="exists"), to="e")], default="e")
        .noop("e")
        .chain("a", "b", "c", "d", "e")
    )
    places = ["nodes[0].cache.key[0]", "nodes[1].node.cache.key[1]", "nodes[2].checks[0].path"]
    assert faults(written) == [(code, place) for place in (*places, "nodes[3].rules[0].conditions[0].path")]
