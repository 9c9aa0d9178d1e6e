"""What is built of a workflow as people write it: the three examples of the design, defaults, edges, mistakes."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder
from steptrail.domain.flow.definition import definition_text, read_definition
from steptrail.domain.flow.nodes import Node
from steptrail.errors import ConfigurationError, InvalidWorkflow
from steptrail.testing import ScriptedModel
from steptrail.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, tool
from steptrail.workflow import (
    BuiltWorkflow,
    Cache,
    Case,
    Check,
    Condition,
    Edge,
    EdgeWhen,
    Envelope,
    Expression,
    FailureClass,
    FunctionNode,
    MapNode,
    OnError,
    RetryPolicy,
    Rule,
    ToolNode,
    Workflow,
)
from tests.flow.design import pipeline, research
from tests.flow.kit import World


@tool
def lookup(id: int = 0) -> str:  # noqa: A002
    """Look something up."""
    return str(id)


@tool(effect=ToolEffect.READ)
def web(q: str) -> list[str]:
    """Search the web."""
    return [q]


@tool
def index(text: str) -> str:
    """Index a text."""
    return text


def parse(envelope: Envelope) -> dict[str, str]:
    return {"text": "a", "title": "b", "id": "c"}


model = ScriptedModel([])
critic = AgentBuilder("critic").with_model(ScriptedModel([])).build()


def node_of(flow: BuiltWorkflow, node: str) -> Any:
    return next(each for each in flow.definition.nodes if each.id == node)


def one(add: Callable[[Workflow], Workflow]) -> Any:
    """Return the only node of a workflow."""
    return add(Workflow("one")).build().definition.nodes[0]


def test_a_workflow_of_one_node_needs_no_edges() -> None:
    flow = Workflow("a").tool("critical-tool", lookup, on_error=OnError.FAIL).build()
    assert flow.definition.entry == ("critical-tool",)
    assert flow.code == {"critical-tool": lookup}
    assert node_of(flow, "critical-tool").on_error is OnError.FAIL


def test_an_enum_may_be_written_as_its_text() -> None:
    texts = one(lambda flow: flow.tool("t", lookup, on_error="continue", continue_on=("timeout",), join="any"))
    enums = one(lambda flow: flow.tool("t", lookup, on_error=OnError.CONTINUE, continue_on=[FailureClass.TIMEOUT]))
    assert texts == structs.replace(enums, join=texts.join)


def test_the_pipeline_of_the_design_is_built_as_it_is_written() -> None:
    flow = pipeline(World())
    assert (flow.name, flow.definition.result, flow.definition.entry) == ("publish", "receipt", ("parse",))
    assert [(e.source, e.target, e.when) for e in flow.definition.edges][-1] == ("release", "notify", EdgeWhen.DONE)
    assert len(flow.definition.edges) == 6
    assert node_of(flow, "approved").when == Expression(kind="path", text="vars.review_approved")
    assert node_of(flow, "summary").model == model.describe().model
    assert node_of(flow, "parse").function.endswith("design.pipeline.<locals>.parse")
    assert flow.code.keys() == {"parse", "summary", "index", "release", "notify"}


def test_the_research_of_the_design_is_built_as_it_is_written() -> None:
    flow = research(World())
    assert flow.definition.entry == ("plan",)
    search = node_of(flow, "search")
    assert isinstance(search, MapNode)
    assert isinstance(search.node, ToolNode)
    assert (search.node.args, search.concurrency, search.node.tool.name) == ({"q": "{{ item }}"}, 4, "web")
    edges = {(e.source, e.target): e for e in flow.definition.edges}
    assert len(flow.definition.edges) == len(edges) == 12
    assert edges["facts", "old_facts"].when is EdgeWhen.ERROR
    assert edges["facts", "join"].when is EdgeWhen.SUCCESS
    assert edges["search", "join"].when is EdgeWhen.DONE
    assert edges["good", "plan"].loop
    assert node_of(flow, "facts").on_error is OnError.RECORD
    assert node_of(flow, "old_facts").on_error is None
    assert flow.code.keys() == {"plan", "search", "critic", "facts", "old_facts", "report"}
    assert node_of(flow, "good").cases[0].when == Expression(kind="cel", text="size(vars.report) > 400")


@pytest.mark.parametrize("write", [pipeline, research])
def test_a_definition_is_read_back_from_its_text(write: Callable[[World], BuiltWorkflow]) -> None:
    flow = write(World())
    assert read_definition(flow.text) == flow.definition
    assert definition_text(read_definition(flow.text)) == flow.text
    assert flow.digest == write(World()).digest


def test_another_prompt_makes_another_digest() -> None:
    digests = {Workflow("a").llm("ask", model, prompt=each).build().digest for each in ("a", "b")}
    assert len(digests) == 2


# What is not said


DEFAULTS: dict[str, tuple[Callable[[Workflow], Workflow], int, float | None, bool, str | None]] = {
    "llm": (lambda f: f.llm("x", model, prompt="p"), 3, 60, False, "x_output"),
    "tool": (lambda f: f.tool("x", lookup), 3, 30, False, "x_output"),
    "agent": (lambda f: f.agent("x", critic, prompt="p"), 1, None, False, "x_output"),
    "flow": (lambda f: f.flow("x", pipeline(World())), 1, None, False, "x_output"),
    "function": (lambda f: f.function("x", parse), 1, None, False, "x_output"),
    "webhook": (lambda f: f.webhook("x", "https://a.example/hook"), 1, 30, False, "x_output"),
    "map": (lambda f: f.map("x", over="items", function=parse), 1, None, False, "x_output"),
    "merge": (lambda f: f.merge("x"), 1, None, False, None),
    "transform": (lambda f: f.transform("x", "parse", source="input"), 1, None, False, "x_output"),
    "filter": (lambda f: f.filter("x", "dedupe", over="items"), 1, None, False, "x_output"),
    "rule_router": (lambda f: f.rule_router("x", [Rule(None, to="x")]), 1, None, True, "x_decision"),
    "conditional": (lambda f: f.conditional("x", [Case("a", to="x")]), 1, None, True, "x_decision"),
    "llm_router": (lambda f: f.llm_router("x", model, prompt="p", routes={"a": "x"}), 3, 30, True, "x_decision"),
    "gate": (lambda f: f.gate("x"), 1, None, True, "x_output"),
    "guardian": (lambda f: f.guardian("x", [Check("required", "a")]), 1, None, True, "x_output"),
    "human": (lambda f: f.human("x"), 1, None, True, "x_output"),
    "noop": (lambda f: f.noop("x"), 1, None, False, None),
}


def only(add: Callable[[Workflow], Workflow]) -> Node:
    flow = add(Workflow("one"))
    return flow._nodes[0]  # pyright: ignore[reportPrivateUsage]  # a router alone leads nowhere


@pytest.mark.parametrize("kind", DEFAULTS)
def test_each_kind_has_its_tries_timeout_and_weight(kind: str) -> None:
    from steptrail.domain.flow.resolving import resolved_nodes

    add, tries, timeout, critical, output = DEFAULTS[kind]
    (node,) = resolved_nodes([only(add)], [])
    assert structs.asdict(node) == structs.asdict(node) | {"timeout": timeout, "critical": critical, "output": output}
    assert (node.retry.max_attempts, node.on_error) == (tries, None)


def test_every_kind_of_node_has_a_method_and_a_row_of_defaults() -> None:
    from typing import get_args

    kinds = {str(each.__struct_config__.tag) for each in get_args(Node)}
    assert kinds == DEFAULTS.keys()
    assert all(hasattr(Workflow, kind) for kind in kinds)


def test_the_settings_of_a_node_replace_the_defaults_of_its_kind() -> None:
    node = one(lambda flow: flow.tool("x", web, args={"q": "a"}, timeout=None, critical=True, retry=5, output="o"))
    assert (node.timeout, node.critical, node.retry.max_attempts, node.output) == (None, True, 5, "o")


def test_classes_of_failures_alone_mean_that_the_run_continues() -> None:
    assert one(lambda flow: flow.function("x", parse, continue_on=("timeout",))).on_error is OnError.CONTINUE


def test_an_error_edge_does_not_change_what_was_said_of_a_failure() -> None:
    flow = Workflow("a").function("x", parse, on_error="continue").noop("y").edge("x", "y", when="error").build()
    assert node_of(flow, "x").on_error is OnError.CONTINUE


def test_a_repeated_edge_is_one() -> None:
    flow = Workflow("a").noop("x").noop("y").edge("x", "y").chain("x", "y").edge("x", "y", when="done").build()
    assert flow.definition.edges == (Edge(source="x", target="y"),)


def test_a_run_begins_where_only_loops_lead_to_or_where_it_is_said() -> None:
    def graph(flow: Workflow) -> BuiltWorkflow:
        flow.noop("x").noop("y").noop("z").chain("x", "y").edge("y", "x", loop=True)
        return flow.build()

    assert graph(Workflow("a")).definition.entry == ("x", "z")
    assert graph(Workflow("a", entry="y")).definition.entry == ("y",)
    assert graph(Workflow("a", entry=("x", "y"))).definition.entry == ("x", "y")


# Tools


def test_the_retries_of_a_tool_become_those_of_its_node() -> None:
    @tool(retry=ToolRetry(attempts=4), on_unknown=OnUnknown.PARK)
    def flaky() -> int:
        """Fail at times."""
        return 1

    node = one(lambda flow: flow.tool("x", flaky))
    assert node.retry == RetryPolicy(max_attempts=4, backoff=0.5, max_delay=60, jitter=0.5)
    assert node.on_unknown == "park"
    assert one(lambda flow: flow.tool("x", flaky, retry=2)).retry == RetryPolicy(max_attempts=2)
    assert one(lambda flow: flow.map("x", over="a", tool=flaky)).node.retry.max_attempts == 4


def test_an_approval_can_be_asked_for_or_left_out() -> None:
    assert one(lambda flow: flow.tool("x", lookup, approval=True)).tool.approval == ApprovalRule()
    assert one(lambda flow: flow.tool("x", lookup)).tool.approval is None


# Functions that decide


def alike(text: str) -> Callable[[object], bool]:
    return lambda envelope: str(envelope) == text


def test_what_looks_wrong_is_told_by_what_was_built_and_makes_no_other_workflow() -> None:
    built = Workflow("a").noop("x").noop("y").noop("z").edge("x", "y").build()
    assert [(each.code, each.path, each.severity) for each in built.warnings] == [("GR-002", "nodes[2]", "warning")]
    assert built == replace(built, warnings=())
    assert Workflow("a").noop("x").build().warnings == ()


def test_two_lambdas_of_one_node_have_two_names() -> None:
    first, second = alike("first"), alike("second")
    flow = Workflow("a").noop("x").noop("y")
    flow.conditional("c", [Case(first, to="x"), Case(second, to="y"), Case(first, to="y")]).edge("c", "x", "y")
    built = flow.build()
    names = [case.when.text for case in node_of(built, "c").cases]
    assert built.functions["c"] == {names[0]: first, names[1]: second}
    assert names[2] == names[0] != names[1]
    assert names[1] == f"{names[0]}#2"


def test_a_rule_takes_conditions_a_text_or_a_function() -> None:
    tier = Condition(path="vars.tier", value="gold")
    rules = [Rule(tier, to="x"), Rule([tier, tier], to="x"), Rule("vars.a > 1", to="x"), Rule(bool, to="x")]
    flow = Workflow("a").rule_router("r", [*rules, Rule(None, to="x")]).noop("x").chain("r", "x").build()
    made = node_of(flow, "r").rules
    assert [len(rule.conditions) for rule in made] == [1, 2, 0, 0, 0]
    assert [rule.when.kind if rule.when else None for rule in made] == [None, None, "cel", "function", None]


def test_a_check_records_what_was_given_and_nothing_else() -> None:
    check = Check("length", "vars.title", max=80, message="too long")
    (made,) = one(lambda flow: flow.guardian("g", [check])).checks
    assert made.settings == {"max": 80}
    assert made.message == "too long"


def test_a_node_that_is_made_already_can_be_added() -> None:
    node = FunctionNode(id="x", function="mine")
    flow = Workflow("a").add(node, parse).build()
    assert flow.code == {"x": parse}
    assert node_of(flow, "x").output == "x_output"


def test_a_generator_that_a_decorator_reads_to_its_end_is_a_function() -> None:
    def read_to_its_end(function: Callable[[Envelope], Iterator[str]]) -> Callable[[Envelope], list[str]]:
        @wraps(function)
        def whole(envelope: Envelope) -> list[str]:
            return [*function(envelope)]

        return whole

    whole = read_to_its_end(each_line)
    assert Workflow("a").function("x", whole).build().code == {"x": whole}


# Mistakes


def takes_three(a: object, b: object, c: object) -> None: ...


def each_line(envelope: Envelope) -> Iterator[str]:
    yield from envelope.input


async def each_later(envelope: Envelope) -> AsyncIterator[str]:
    yield envelope.input


NO_TOOL: Any = parse
NO_FUNCTION: Any = lookup
OF_THREE: Any = takes_three
NO_MODEL: Any = "gpt-5"
BUILDER: Any = Workflow("other")
MISSPELT: Any = {"retires": 3}
UNREADABLE: Any = object()
UNKNOWN_WORD: Any = "bogus"


MISTAKES: dict[str, tuple[Callable[[Workflow], object], str]] = {
    "a plain function as a tool": (lambda f: f.tool("x", NO_TOOL), "node 'x': the function .*parse is not a tool"),
    "a tool as a function": (lambda f: f.function("x", NO_FUNCTION), "node 'x': 'lookup' is a tool"),
    "the name of a model": (lambda f: f.llm("x", NO_MODEL, prompt="p"), "node 'x': .*'gpt-5' is no model"),
    "no prompt": (lambda f: f.llm("x", model), "node 'x': give a prompt, or messages"),
    "a builder as a workflow": (lambda f: f.flow("x", BUILDER), "node 'x': Workflow is no built workflow"),
    "a function of three": (lambda f: f.function("x", OF_THREE), r"node 'x': .*takes_three cannot be a node"),
    "a generator": (lambda f: f.function("x", each_line), r"node 'x': .*each_line cannot be a node: it is a generator"),
    "an async generator": (lambda f: f.function("x", each_later), r"node 'x': .*each_later .* is a generator"),
    "an unknown argument": (lambda f: f.tool("x", lookup, args={"ix": 1}), "node 'x': .*has no argument 'ix'"),
    "a missing argument": (lambda f: f.tool("x", web), "node 'x': .*needs the argument 'q'"),
    "an id with a digit": (lambda f: f.noop("1x"), "node '1x': an id is 1 to 64"),
    "an unknown setting": (lambda f: f.noop("x", **MISSPELT), "node 'x': it has no setting 'retires'"),
    "no try at all": (lambda f: f.function("x", parse, retry=0), "node 'x': max_attempts: Expected"),
    "a negative timeout": (lambda f: f.function("x", parse, timeout=-1), "node 'x': timeout: Expected"),
    "an unknown word": (
        lambda f: f.noop("x", on_error=UNKNOWN_WORD),
        "node 'x': on_error: Expected one of 'fail', 'continue', 'record', not 'bogus'$",
    ),
    "an unknown word in a list": (
        lambda f: f.noop("x", continue_on=(UNKNOWN_WORD,)),
        r"node 'x': continue_on: Expected one of 'error', 'model', .*'unknown_outcome', not \('bogus',\)$",
    ),
    "an unknown word of several": (
        lambda f: f.merge("x", strategy=UNKNOWN_WORD),
        "node 'x': strategy: Expected one of 'json', 'concat', 'best_score', 'all', 'function', not 'bogus'$",
    ),
    "classes without effect": (
        lambda f: f.function("x", parse, on_error="fail", continue_on=("timeout",)),
        "node 'x': continue_on: it has no effect",
    ),
    "a cache of what writes": (lambda f: f.tool("x", lookup, cache=Cache()), "node 'x': what is unsafe is not cached"),
    "a redirect to nowhere": (lambda f: f.gate("x", on_fail="redirect"), "node 'x': redirect: Expected"),
    "a redirect without effect": (lambda f: f.guardian("x", [], redirect="y"), "node 'x': redirect: Expected"),
    "a choice of nothing": (lambda f: f.human("x", type="choice"), "node 'x': options: Expected"),
    "no default": (lambda f: f.human("x", expires=1, on_timeout="default"), "node 'x': default: Expected"),
    "a timeout that never comes": (lambda f: f.human("x", on_timeout="skip"), "node 'x': expires: Expected"),
    "another default": (
        lambda f: f.human("x", type="choice", options=("a",), expires=1, on_timeout="default", default="b"),
        "node 'x': default: Expected one of",
    ),
    "a default without effect": (
        lambda f: f.human("x", expires=1, default="yes"),
        "node 'x': default: Expected on_timeout='default' beside it, .*, not 'yes'",
    ),
    "a default that is no text": (
        lambda f: f.human("x", expires=1, on_timeout="default", default=True),
        'node \'x\': default: Expected "yes", "no" or another text, not True',
    ),
    "no method": (lambda f: f.webhook("x", "https://a.example", method="POST "), "node 'x': 'POST ' is no method of"),
    "a host from a template": (lambda f: f.webhook("x", "https://{{ vars.h }}/a"), "node 'x': the URL names no host"),
    "a map of nothing": (lambda f: f.map("x", over="a"), "node 'x': a map has one of .* not 0"),
    "a map of two": (lambda f: f.map("x", over="a", tool=lookup, function=parse), "not 2 of them"),
    "a prompt for a tool": (lambda f: f.map("x", over="a", tool=lookup, prompt="p"), "node 'x': the tool of the map"),
    "what decides nothing": (lambda f: f.gate("x", when=UNREADABLE), "node 'x': what decides is"),
    "what merges nothing": (lambda f: f.merge("x", function=UNREADABLE), "node 'x': what decides is a function, not"),
    "a tool that merges": (lambda f: f.merge("x", function=lookup), "node 'x': 'lookup' is a tool, and what decides"),
    "an edge to nowhere": (lambda f: f.edge("x"), "the edge from 'x' leads nowhere"),
    "a schema that is none": (lambda f: f.human("x", schema=UNREADABLE), "node 'x': .* is neither a JSON schema"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_where_it_is_written(mistake: str) -> None:
    write, said = MISTAKES[mistake]
    with pytest.raises(ConfigurationError, match=said):
        write(Workflow("a"))


def test_a_workflow_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        Workflow(" ")


def test_what_is_wrong_with_the_graph_is_said_at_once() -> None:
    flow = Workflow("a", entry="start").noop("x").noop("x").edge("x", "y")
    with pytest.raises(InvalidWorkflow) as caught:
        flow.build()
    assert [(each.code, each.path) for each in caught.value.diagnostics] == [
        ("GR-005", "nodes[1].id"),
        ("GR-001", "edges[0].target"),
        ("GR-007", "entry[0]"),
    ]
    assert "\n  GR-001 edges[0].target: " in str(caught.value)


def test_a_workflow_without_nodes_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="FL-109"):
        Workflow("a").build()


def test_an_argument_that_is_no_json_is_refused_with_its_place() -> None:
    not_json: Any = {"id": {1, 2}}
    with pytest.raises(ConfigurationError, match=r"nodes\[0\].args.id: set has no JSON form"):
        Workflow("a").tool("x", lookup, args=not_json).build()


def test_what_was_built_does_not_change_with_what_was_given() -> None:
    args: dict[str, Any] = {"id": [1]}
    workflow = Workflow("a").tool("x", lookup, args=args)
    flow = workflow.build()
    args["id"].append(2)
    workflow.noop("y")
    assert node_of(flow, "x").args == {"id": [1]}
    assert len(flow.definition.nodes) == 1
