"""Branches of workflows as they run: joins, merges, loops, and what each node sees of the others."""

import asyncio
from collections.abc import Callable

from steptrail import Steptrail
from steptrail.domain.flow.envelope import Envelope
from steptrail.domain.flow.events import FlowEvent, NodeEvaluated, NodeOpened
from steptrail.domain.messages import Message
from steptrail.projections.flow_graph import drawn_run
from steptrail.runtime.flow.result import FlowResult
from steptrail.workflow import BuiltWorkflow, Case, Update, Workflow


def says(text: str, after: float = 0, **variables: object) -> Callable[[Envelope], object]:
    """Return a function that sets variables and says something, some time later."""

    async def say(envelope: Envelope) -> Update:
        await asyncio.sleep(after)
        return Update(output=text, set=variables, messages=(Message.user(text),))

    return say


async def ran(flow: BuiltWorkflow) -> tuple[FlowResult, list[FlowEvent]]:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, None)
        return result, [record.event for record in await trail.flow(result.id).events()]


def visits(events: list[FlowEvent]) -> list[tuple[str, int]]:
    return [(event.node, event.visit) for event in events if isinstance(event, NodeOpened)]


def said(result: FlowResult) -> list[str]:
    return [message.text for message in result.envelope.messages]


async def test_the_faster_branch_changes_nothing() -> None:
    results = [
        await ran(
            Workflow("w")
            .function("root", says("root", k="root"))
            .function("one", says("one", slow, k="one"))
            .function("two", says("two", 0.02 - slow, k="two"))
            .noop("end")
            .edge("root", "one", "two")
            .edge(("one", "two"), "end")
            .build()
        )
        for slow in (0.02, 0.0)
    ]
    (slow, _), (fast, _) = results
    assert slow.envelope.vars == fast.envelope.vars
    assert slow.envelope.vars["k"] == "two"
    assert said(slow) == said(fast) == ["root", "one", "two"]


async def test_a_merge_brings_objects_together_and_its_event_says_what_met() -> None:
    flow = (
        Workflow("w")
        .function("root", says("root"))
        .function("one", says("one", doc={"a": 1}))
        .function("two", says("two", doc={"b": 2}))
        .merge("both", deep=True, conflict="error")
        .edge("root", "one", "two")
        .edge(("one", "two"), "both")
        .build()
    )
    result, events = await ran(flow)
    assert result.envelope.vars["doc"] == {"a": 1, "b": 2}
    (evaluated,) = [event for event in events if isinstance(event, NodeEvaluated)]
    assert evaluated.detail == {"strategy": "json", "inputs": ["one", "two"], "conflicts": {"doc": ["one", "two"]}}
    drawing = drawn_run(events)
    assert drawing is not None
    assert {node.id: node.mark for node in drawing.nodes} == dict.fromkeys(("root", "one", "two", "both"), "ran")


async def test_what_the_best_branch_did_not_say_is_not_said_again_behind_the_merge() -> None:
    flow = (
        Workflow("w")
        .function("root", says("root"))
        .function("one", says("one", score=1))
        .function("two", says("two", score=2))
        .function("beside", says("beside"))
        .merge("best", strategy="best_score", key="score")
        .noop("end")
        .edge("root", "beside", "one", "two")
        .edge(("one", "two"), "best")
        .edge(("beside", "best"), "end")
        .build()
    )
    result, _ = await ran(flow)
    assert said(result) == ["root", "beside", "two"]
    assert result.envelope.vars["score"] == 2
    assert "one_output" not in result.envelope.vars


async def test_a_conflict_fails_the_run() -> None:
    flow = (
        Workflow("w")
        .function("one", says("one", k=1))
        .function("two", says("two", k=2))
        .merge("both", conflict="error")
        .edge(("one", "two"), "both")
        .build()
    )
    result, _ = await ran(flow)
    assert result.error is not None
    assert (result.error.node_id, result.error.failure.value) == ("both", "conflict")
    assert "one and two have both changed 'k'" in result.error.message


async def test_two_drafts_that_are_sent_back_are_both_written_before_the_next_review() -> None:
    rounds = iter((False, True))

    def is_good(envelope: Envelope) -> bool:
        return next(rounds)

    flow = (
        Workflow("w")
        .function("start", says("start"))
        .function("text", says("text"))
        .function("images", says("images"))
        .conditional("review", [Case(is_good, to="done"), Case(lambda envelope: True, to="again")])
        .noop("again")
        .noop("done")
        .edge("start", "text", "images")
        .edge(("text", "images"), "review")
        .edge("review", "done", "again")
        .edge("again", "text", "images", loop=True)
        .build()
    )
    result, events = await ran(flow)
    assert result.error is None
    first = [("start", 1), ("text", 1), ("images", 1), ("review", 1), ("again", 1)]
    assert visits(events) == [*first, ("text", 2), ("images", 2), ("review", 2), ("done", 1)]
