"""Parts of a workflow, and subagents, of another type: one line that says where, when they are put together."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.errors import ConfigurationError
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SpawnSubagent, Subagent, SubagentTool
from steptrail.workflow import Check, Envelope, RetryPolicy, Rule, Workflow, check_flow, load_flow

ANY: Any = 5
TEXT: Any = "3"
CLERK = AgentBuilder("clerk").with_model(ScriptedModel(["Yes."])).build()
CLASS: Any = RetryPolicy
LIST: Any = ["a", "b"]
MODEL = ScriptedModel(["Yes."])
BUILDER: Any = AgentBuilder("clerk")


@tool
def count(item: str) -> int:
    """Count an item."""
    return 3


async def nobody_awaits(envelope: Envelope) -> bool:
    return True


FUNCTION: Any = nobody_awaits


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Workflow(ANY), "the name of a workflow is a text, not int"),
        (lambda: Workflow("w").rule_router("r", ANY), "node 'r': rules: Expected a list, got `int`"),
        (lambda: Workflow("w").rule_router("r", [ANY]), "node 'r': a rule is a `Rule"),
        (lambda: Workflow("w").conditional("c", [ANY]), "node 'c': a case is a `Case"),
        (lambda: Workflow("w").tool("t", count, args=ANY), "node 't': args: they are a mapping .* not int"),
        (lambda: Workflow("w").guardian("g", [ANY]), "node 'g': a check is a `Check"),
        (lambda: Workflow("w").gate("g", when=nobody_awaits), "node 'g': what decides is a plain function"),
        (lambda: Workflow("w").gate("g", when=count), "node 'g': 'count' is a tool, and what decides is a function"),
        (lambda: Workflow("w").function("f", str, retry=CLASS), "node 'f': retry: Expected `RetryPolicy`, not <class"),
        (lambda: Workflow("w").function("f", str, budget=ANY), "node 'f': budget: Expected `Budget`, not 5"),
        (lambda: Workflow("w").function("f", str, cache=FUNCTION), "node 'f': cache: Expected `Cache`, not <function"),
        (lambda: Workflow("w", options=ANY), "`options` is of the class RunOptions, not int"),
        (lambda: Workflow("w").edge("a", "b", when=ANY), "the ends are done, success, error"),
        (lambda: Workflow("w").human("h", show=TEXT), "node 'h': show: Expected a list, got `str`"),
        (
            lambda: Workflow("w").human("h", type="choice", options=TEXT),
            "node 'h': options: Expected a list",
        ),
        (lambda: Workflow("w").webhook("h", "http://a/x", hosts=TEXT), "node 'h': hosts: Expected a list, got `str`"),
        (lambda: Workflow("w").transform("t", "pick", keys=TEXT), "node 't': keys: Expected a list, got `str`"),
        (lambda: Workflow("w").transform("t", "combine", paths=TEXT), "node 't': paths: Expected a list, got `str`"),
        (
            lambda: Workflow("w").filter("f", "type", over="x", types=TEXT),
            "node 'f': types: Expected a list",
        ),
        (lambda: Workflow("w").filter("f", "match", over="x", values=TEXT), "node 'f': values: Expected a list, got"),
        (lambda: Workflow("w").guardian("g", [Check("enum", "x", values=TEXT)]), "the values of a check: Expected a l"),
        (lambda: Workflow("w").llm_router("r", MODEL, prompt="", routes=LIST), "node 'r': routes: they are a mapping"),
        (lambda: Workflow("w", entry=ANY), "entry: Expected a list, got `int`"),
        (lambda: Workflow("w").add(ANY), "what is added to a workflow is of the class NodeBase, not int"),
        (lambda: Workflow("w").noop("n", continue_on=ANY), "node 'n': continue_on: Expected a list, got `int`"),
        (lambda: Workflow("w").llm("m", MODEL, messages=ANY), "node 'm': messages: Expected a list, got `int`"),
        (lambda: Workflow("w").llm("m", MODEL, messages=LIST), "node 'm': messages are a mapping, not str"),
        (
            lambda: Workflow("w").llm("m", MODEL, prompt="", parameters=LIST),
            "node 'm': parameters are a mapping, not list",
        ),
        (
            lambda: Workflow("w").llm_router("r", MODEL, prompt="", routes={"a": "b"}, parameters=ANY),
            "node 'r': parameters are a mapping, not int",
        ),
        (
            lambda: Workflow("w").rule_router("r", [Rule(ANY, "a")]),
            "node 'r': the conditions of a rule: Expected a list",
        ),
        (lambda: Workflow("w").webhook("h", ANY), "node 'h': the URL is a text, not int"),
        (lambda: Workflow("w").webhook("h", "http://a/x", method=ANY), "node 'h': the method is a text, not int"),
        (lambda: Workflow("w").webhook("h", "http://a/x", headers=LIST), "node 'h': headers are a mapping, not list"),
        (lambda: Workflow("w").edge("a", LIST), "what an edge connects is the id of a node, which is a text, not list"),
        (lambda: Workflow("w").edge(ANY, "a"), "the sources of an edge: Expected a list, got `int`"),
        (lambda: Workflow("w").chain(LIST), "what a chain connects is the id of a node, which is a text, not list"),
        (
            lambda: Subagent(agent=CLERK, denied_tools=TEXT),
            "the denied tools of a subagent: Expected a list",
        ),
        (lambda: load_flow(ANY), "a workflow is read from a text of YAML or JSON, not int"),
        (lambda: check_flow(ANY), "not int"),
        (lambda: load_flow("name: w", use=ANY), "`use` is a mapping from names to tools"),
        (lambda: load_flow("name: w", use={ANY: count}), "`use` is a mapping from names to tools"),
        (lambda: SpawnSubagent(ANY), "its subagents, by their names, are a mapping, not int"),
        (lambda: SpawnSubagent({"": CLERK}), "the name of a subagent is a text, not ''"),
        (lambda: SpawnSubagent({"clerk": ANY}), "what runs is an Agent, not int"),
        (lambda: SpawnSubagent({"clerk": BUILDER}), r"not AgentBuilder: `.build\(\)`"),
        (lambda: Subagent(agent=CLERK, context="Ulm"), "agent 'clerk' is told nothing of its runs"),
        (
            lambda: Workflow("w").agent("a", CLERK, prompt="", context=1),
            "node 'a': agent 'clerk' is told nothing of its",
        ),
        (lambda: Subagent(agent=ANY), "what runs is an Agent, not int"),
        (lambda: SubagentTool(CLERK, max_depth=TEXT), "`max_depth` of subagent 'clerk' is a whole number, not str"),
    ],
)
def test_a_part_of_another_type_is_refused_in_one_line(build: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        build()
    assert "\n" not in str(raised.value)


async def test_a_subagent_that_is_made_later_and_is_none_fails_its_call() -> None:
    staff = SpawnSubagent({"clerk": Subagent(agent=lambda: ANY)})
    asking = call("spawn_subagent", subagent="clerk", prompt="Is there tea?")
    boss = AgentBuilder("boss").with_model(ScriptedModel([asking, "No."])).with_tools(staff).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(boss, "Do we have tea?")
    (asked,) = result.state.steps[0].tool_executions
    assert asked.error is not None
    assert asked.error.message == "what runs is an Agent, not int"
