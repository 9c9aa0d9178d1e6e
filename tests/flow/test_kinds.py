"""Nodes that do not leave the process, in a run: expressions, schemas, redirects, filters, and maps over any path."""

from typing import Any

import pytest

from steptrail import ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.runtime.flow.builder import FlowBuilder
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Cache, Case, Check, Envelope, FailureClass, Rule, Workflow, load_flow
from tests.flow.kit import LEAVES
from tests.runner.kit import trail_of

CHECKED = """\
steptrail: flow/v1
name: checked
nodes:
  - {id: scores, kind: transform, operation: expr, expression: "input.map(x, x * 2)", output: scores}
  - {id: best, kind: filter, operation: top_n, over: scores, n: 2, output: best}
  - {id: enough, kind: guardian, checks: [{kind: length, path: best, min: 2}], on_fail: redirect, redirect: few}
  - {id: high, kind: conditional, cases: [{when: "vars.best.all(x, x > 4)", to: many}], default: few}
  - {id: many, kind: transform, operation: template, template: "many: {{ best }}", output: said}
  - {id: few, kind: transform, operation: template, template: "few: {{ scores }}", output: said}
edges: ["scores > best > enough > high > many", "enough > few", "high > few"]
"""


@pytest.mark.parametrize(
    ("given", "said"), [([1, 2, 3], "few: [2,4,6]"), ([1, 3, 4], "many: [8,6]"), ([9], "few: [18]"), ([], "few: []")]
)
async def test_expressions_checks_and_routes_decide_together(given: list[int], said: str) -> None:
    async with trail_of() as trail:
        result = await trail.run(load_flow(CHECKED), given)
    assert result.status is ExecutionStatus.COMPLETED
    assert result.envelope.vars["said"] == said


def names(envelope: Envelope) -> list[str]:
    return sorted(envelope.vars)


@pytest.mark.parametrize("over", ["input.rows", "vars.rows", "rows"])
async def test_a_map_goes_over_a_list_at_any_path(over: str) -> None:
    flow = (
        Workflow("t")
        .transform("rows", "expr", source="input.rows", expression=lambda rows: rows, output="rows")
        .map("each", over=over, function=names, output="out")
        .chain("rows", "each")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, {"rows": ["a", "b"]})
    assert result.envelope.vars["out"] == [["rows"], ["rows"]]


def wrong(expression: str) -> BuiltWorkflow:
    return FlowBuilder("t").conditional("c", [Case(expression, to="n")]).noop("n").chain("c", "n").build()


@pytest.mark.parametrize(
    ("expression", "failure"),
    [("vars.gone > 1", FailureClass.VALIDATION), ("1 +", FailureClass.CONFIG), ("gone", FailureClass.NO_MATCH)],
)
async def test_a_fault_of_an_expression_is_the_failure_of_its_node(expression: str, failure: FailureClass) -> None:
    async with trail_of() as trail:
        result = await trail.run(wrong(expression))
    assert result.error is not None
    assert (result.status, result.error.failure) == (ExecutionStatus.FAILED, failure)


def broken(envelope: Envelope) -> bool:
    return bool(next(iter(envelope.vars["none"])))


@pytest.mark.parametrize(
    "written",
    [
        Workflow("t").gate("d", when=broken),
        Workflow("t").guardian("d", [Check("expr", when=broken)]),
        Workflow("t").filter("d", "expression", over="listed", expression=lambda _: bool(next(iter([])))),
        Workflow("t").conditional("d", [Case(broken, to="n")]).noop("n").chain("d", "n"),
        Workflow("t").rule_router("d", [Rule(broken, to="n")]).noop("n").edge("d", "n"),
    ],
)
async def test_what_a_function_that_decides_raises_is_the_failure_of_its_node(written: Workflow) -> None:
    async with trail_of() as trail:
        result = await trail.run(written.build(), vars={"none": [], "listed": [1]})
    assert result.error is not None
    assert result.error.failure is FailureClass.ERROR
    assert "d: StopIteration (" in str(result.error)


async def test_an_answer_has_to_fit_the_schema_of_the_question() -> None:
    age: dict[str, JsonValue] = {"type": "integer", "minimum": 0}
    flow = Workflow("t").human("age", type="input", schema=age, output="age").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        with pytest.raises(CommandRejected, match="-1 is less than the minimum"):
            await trail.flow("f").answer("age", data=-1, by="ana")
        await trail.flow("f").answer("age", data=7, by="ana")
        result = await trail.flow("f").resume(flow)
    said = result.envelope.vars["age"]
    assert isinstance(said, dict)
    assert (said["data"], said["by"]) == (7, "ana")


async def test_a_guardian_that_blocks_tells_its_findings_in_the_error() -> None:
    flow = Workflow("t").guardian("g", [Check("schema", "input", schema={"type": "object"})]).build()
    async with trail_of() as trail:
        result = await trail.run(flow, [1])
    assert result.error is not None
    assert (result.error.failure, result.error.message) == (FailureClass.BLOCKED, "input: [1] is not of type 'object'")


@pytest.mark.parametrize(
    ("operation", "given", "said"),
    [
        ("template", {"template": "{{ errors }}"}, '"message":"no"'),
        ("expr", {"expression": "errors.map(each, each.message)"}, "['no']"),
        ("expr", {"expression": "messages"}, "[]"),
    ],
)
async def test_what_a_run_has_recorded_is_there_for_templates_and_expressions(
    operation: Any, given: dict[str, str], said: str
) -> None:
    def bad(_: Envelope) -> None:
        raise ValueError("no")

    flow = (
        Workflow("t")
        .function("bad", bad, on_error="record")
        .transform("told", operation, **given, output="told")  # type: ignore[arg-type]
        .chain("bad", "told")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert said in str(result.output)


async def test_all_variables_together_are_a_value_wherever_a_path_may_stand() -> None:
    @tool(effect=ToolEffect.READ)
    async def echo(them: dict[str, int]) -> dict[str, int]:
        """Echo."""
        return them

    below = Workflow("below").function("same", lambda seen: seen.input).build()
    model = ScriptedModel(["said"])
    flow = (
        Workflow("t")
        .tool("tool", echo, args={"them": "{{ vars }}"})
        .flow("flow", below, input={"all": "{{ vars }}"})
        .llm("model", model, prompt="Of {{ vars }}")
        .function("kept", lambda _: 1, cache=Cache(key=("vars",)))
        .transform("pick", "pick", source="vars", keys=["a"])
        .conditional("any", [Case("vars", to="end")])
        .noop("end")
        .chain("tool", "flow", "model", "kept", "pick", "any", "end")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"a": 1}, session="f")
    found = result.envelope.vars
    assert result.status is ExecutionStatus.COMPLETED, result.error
    assert (found["tool_output"], found["pick_output"]) == ({"a": 1}, {"a": 1})
    assert found["flow_output"] == {"all": {"a": 1, "tool_output": {"a": 1}}}
    assert model.requests[0].messages[-1].text.startswith('Of {"a":1,')
