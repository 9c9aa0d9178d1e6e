"""Workflows of every kind of node, drawn at random and written with the builder."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from steptrail import AgentBuilder
from steptrail.domain.base import CENTURY_SECONDS
from steptrail.testing import ScriptedModel
from steptrail.tools import OnUnknown, ToolEffect, ToolRetry, tool
from steptrail.workflow import (
    Budget,
    BuiltWorkflow,
    Cache,
    Case,
    Check,
    Condition,
    Envelope,
    RetryPolicy,
    Rule,
    RunOptions,
    Workflow,
)
from tests.unit.flow.json_values import json_values


@tool(approval=True, retry=ToolRetry(attempts=2), on_unknown=OnUnknown.FAIL)
def write(text: str = "") -> str:
    """Write a text."""
    return text


@tool(effect=ToolEffect.READ)
def look(q: str) -> str:
    """Look something up."""
    return q


def compute(envelope: Envelope) -> int:
    return 1


def is_big(envelope: Envelope) -> bool:
    return True


model = ScriptedModel([])
agent = AgentBuilder("agent").with_model(model).with_context(dict[str, Any]).build()
inner = Workflow("inner").function("x", compute).build()

# Words that YAML 1.1 reads as something else stand among them.
odd = ["yes", "0123", "1:30", "null", " ", "é\n'x\": #", "\x85", "\u2028\ufeff", "- a", "2026-01-01"]
paths = st.sampled_from(["a", *odd])
texts = paths | st.just("{{ vars.n }}")
results = st.sampled_from([None, "a", "out", "vars.out.a"])
objects = st.dictionaries(st.sampled_from(["a", "on", "1"]), json_values, max_size=2)
seconds = st.none() | st.sampled_from([0.5, 3, CENTURY_SECONDS])
when: st.SearchStrategy[Any] = st.sampled_from(["vars.ok", "vars.n > 1", is_big])

common: Mapping[str, st.SearchStrategy[Any]] = {
    "on_error": st.sampled_from(["continue", "record"]),
    "continue_on": st.lists(st.sampled_from(["timeout", "child"]), max_size=2),
    "critical": st.booleans(),
    "join": st.sampled_from(["any", "each", "all"]),
    "output": st.sampled_from(["out", "off"]),
}
trying = {
    **common,
    "retry": st.just(3) | st.builds(RetryPolicy, max_attempts=st.integers(1, 9), jitter=st.sampled_from([0, 0.25])),
    "timeout": seconds,
    "budget": st.just(Budget(max_total_tokens=5, max_cost_usd="0.1")),  # type: ignore[arg-type]
    "on_unknown": st.sampled_from(["park", "fail"]),
}
cached = {**trying, "cache": st.just(Cache(key=("q",), ttl=60))}
conditions = st.lists(st.builds(Condition, path=paths, value=json_values), min_size=1, max_size=2)
checks = st.sampled_from(
    [
        Check("required", "a"),
        Check("length", "a", min=1, max=2.5, message="m"),
        Check("enum", "a", values=["yes", 1]),
        Check("schema", "a", schema={"type": "string"}),
        Check("expr", when=is_big),
        Check("expr", "a", when="item > 1"),
    ]
)

Adds = Callable[[Workflow, str, Any], Workflow]

KINDS: dict[str, tuple[Adds, Mapping[str, st.SearchStrategy[Any]]]] = {
    "llm": (lambda f, i, s: f.llm(i, model, prompt="p", **s), {**cached, "system": texts, "parameters": objects}),
    "tool": (lambda f, i, s: f.tool(i, write, **s), {**trying, "approval": st.booleans()}),
    "reading tool": (lambda f, i, s: f.tool(i, look, args={"q": "x"}, **s), cached),
    "agent": (lambda f, i, s: f.agent(i, agent, prompt="p", **s), {**trying, "context": json_values}),
    "flow": (lambda f, i, s: f.flow(i, inner, **s), {**trying, "input": json_values}),
    "function": (lambda f, i, s: f.function(i, compute, **s), {**trying, "effect": st.sampled_from(["keyed", "read"])}),
    "webhook": (
        lambda f, i, s: f.webhook(i, "https://a.example/x", **s),
        {**trying, "method": st.sampled_from(["GET", "PUT"]), "body": json_values, "hosts": st.just(["b.example"])},
    ),
    "llm_router": (lambda f, i, s: f.llm_router(i, model, prompt="p", routes={"yes": "end"}, **s), cached),
    "map": (
        lambda f, i, s: f.map(i, over="a", tool=look, args={"q": "{{ item }}"}, **s),
        {**cached, "item_timeout": seconds, "concurrency": st.integers(1, 5), "on_item_error": st.just("record")},
    ),
    "map of requests": (lambda f, i, s: f.map(i, over="a", url="http://h/", **s), {**trying, "method": st.just("GET")}),
    "merge": (
        lambda f, i, s: f.merge(i, **s),
        {**common, "strategy": st.sampled_from(["json", "all"]), "function": st.just(compute), "separator": texts},
    ),
    "transform": (
        lambda f, i, s: f.transform(i, "expr", expression="vars.n + 1", **s),
        {**common, "source": st.just("a.b"), "names": st.just({"on": "off"}), "keys": st.lists(texts, max_size=2)},
    ),
    "filter": (
        lambda f, i, s: f.filter(i, "expression", over="a", expression=s.pop("expression", "item"), **s),
        {**common, "expression": when, "min": st.floats(0, 9), "values": st.lists(json_values, max_size=2)},
    ),
    "rule_router": (
        lambda f, i, s: f.rule_router(i, s.pop("rules", [Rule(None, to="end")]), **s),
        {
            **common,
            "rules": st.lists(
                st.builds(Rule, conditions | when | st.none(), to=st.just("end")), min_size=1, max_size=3
            ),
        },
    ),
    "conditional": (
        lambda f, i, s: f.conditional(i, s.pop("cases", [Case("a", to="end")]), default="end", **s),
        {**common, "cases": st.lists(st.builds(Case, when, st.just("end"), texts), min_size=1, max_size=3)},
    ),
    "gate": (lambda f, i, s: f.gate(i, **s), {**common, "when": when, "message": texts, "on_fail": st.just("skip")}),
    "guardian": (
        lambda f, i, s: f.guardian(
            i, s.pop("checks", [Check("required", "a")]), on_fail="redirect", redirect="end", **s
        ),
        {**common, "checks": st.lists(checks, min_size=1, max_size=3)},
    ),
    "human": (
        lambda f, i, s: f.human(i, type="choice", options=("yes", "no"), **s),
        {
            **common,
            "prompt": texts,
            "show": st.just(("a",)),
            "expires": st.just(60),
            "schema": st.just({"type": "null"}),
        },
    ),
    "noop": (lambda f, i, s: f.noop(i, **s), {"join": common["join"]}),
}
"""A name -> how such a node is added, and what may be said of it."""

USE: Mapping[str, object] = {
    **{f"{compute.__module__}.{each.__qualname__}": each for each in (compute, is_big)},
    **{
        f"{prefix}{number}": code
        for number, kind in enumerate(KINDS)
        for prefix in ("n",)
        for code in [
            {"llm": model, "llm_router": model, "tool": write, "reading tool": look, "agent": agent}.get(kind)
            or {"flow": inner, "function": compute, "map": look}.get(kind)
        ]
        if code is not None
    },
}
"""All that such workflows use, under the ids of nodes and the names of functions."""


@st.composite
def drawn_workflows(draw: st.DrawFn) -> BuiltWorkflow:
    """Draw a workflow. Every node leads to the node `end`, and some of them to others by the end they come to."""
    options = draw(st.none() | st.builds(RunOptions, concurrency=st.integers(1, 9), timeout=seconds))
    flow = Workflow("drawn", result=draw(results), options=options, description=draw(st.none() | texts))
    kinds = list(KINDS)
    chosen = draw(st.lists(st.sampled_from(kinds), unique=True, min_size=1, max_size=6))
    for kind in chosen:
        add, settings = KINDS[kind]
        said = draw(st.fixed_dictionaries({}, optional=dict(settings)))
        add(flow, f"n{kinds.index(kind)}", said)
    flow.noop("end")
    for kind in chosen:
        flow.edge(f"n{kinds.index(kind)}", "end", when=draw(st.sampled_from([None, "success"])))
        if kind != "noop" and draw(st.booleans()):
            flow.edge(f"n{kinds.index(kind)}", "end", when="error")
    return flow.build()
