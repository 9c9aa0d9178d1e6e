"""The longer examples of how workflows are written, run as they are written: a pipeline with a person, a research."""

from typing import Any

import pytest

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.domain.flow.events import NodeOpened, NodeRetryScheduled
from steptrail.domain.inference import ModelRequest
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import Budget, BuiltWorkflow, Case, Envelope, FailureClass, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.kit import HandClock, trail_of

LEAVES = RunOptions(longest_wait=0.0)


def pipeline(world: World) -> BuiltWorkflow:
    async def parse(envelope: Envelope) -> dict[str, object]:
        await world.do("parse")
        given: dict[str, str] = envelope.input
        return {"id": 17, "title": "On tea", "text": f"the text of {given['path']}"}

    @tool(effect=ToolEffect.IDEMPOTENT)
    async def index(text: str) -> str:
        """Index a text."""
        return await world.do(f"index {text}")

    @tool(effect=ToolEffect.KEYED)
    async def release(id: int) -> str:  # noqa: A002
        """Publish a document."""
        return await world.do(f"release {id}")

    @tool(effect=ToolEffect.IDEMPOTENT)
    async def notify(to: str) -> str:
        """Tell somebody."""
        return await world.do(f"notify {to}")

    model = ScriptedModel([lambda request: say(f"short for: {request.messages[-1].text}")])
    return (
        Workflow("publish", result="receipt")
        .function("parse", parse, output="doc")
        .llm(
            "summary",
            model,
            prompt="Summarise:\n{{ vars.doc.text }}",
            budget=Budget(max_total_tokens=4000),
            output="summary",
        )
        .tool("index", index, args={"text": "{{ vars.summary }}"}, retry=RetryPolicy(max_attempts=5, backoff=0.5))
        .human(
            "review",
            type="approval",
            prompt="Publish {{ vars.doc.title }}?",
            expires=86_400,
            on_timeout="fail",
            output="review",
        )
        .gate("approved", when="vars.review_approved")
        .tool("release", release, args={"id": "{{ vars.doc.id }}"}, output="receipt")
        .tool(
            "notify",
            notify,
            args={"to": "{{ input.owner }}"},
            on_error="continue",
            continue_on=("timeout", "unavailable"),
        )
        .chain("parse", "summary", "index", "review", "approved", "release", "notify")
        .build()
    )


GIVEN = {"path": "a.md", "owner": "ana"}
INDEX = "index short for: Summarise:\nthe text of a.md"


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_document_is_published_after_a_yes_and_a_no_is_a_stop(is_approved: bool) -> None:
    world, clock = World(), HandClock()
    world.fails[INDEX] = [ConnectionError("the index is away"), None]
    world.breaks["notify ana"] = ConnectionError("the mail is away")
    flow = pipeline(world)
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, GIVEN, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(0.5)
        result = await trail.flow("f").resume(flow)
        assert result.status is ExecutionStatus.WAITING
        assert [task.request.prompt for task in result.state.tasks if task.request] == ["Publish On tea?"]
        again = await trail.run(flow, GIVEN, session="f", options=LEAVES)
        assert again.status is ExecutionStatus.WAITING
        await trail.flow(result.id).answer("review", approved=is_approved, by="ana")
        await trail.flow(result.id).resume(flow)
        result = await run_to_rest(trail, clock, flow, GIVEN)
        waits = [event.delay_seconds for event in await events_of(trail) if isinstance(event, NodeRetryScheduled)]
    before = {"parse": 1, INDEX: 2}
    if not is_approved:
        assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.GUARD)
        assert result.error is not None
        assert (result.error.node_id, result.error.failure) == ("approved", FailureClass.BLOCKED)
        assert world.done == before
        return
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, "release 17 is done")
    assert [(error.node_id, error.failure) for error in result.errors] == [("notify", FailureClass.UNAVAILABLE)]
    assert world.done == {**before, "release 17": 1, "notify ana": 3}
    assert waits == [0.5, 1.0, 2.0]


async def test_nobody_answers_and_the_pipeline_fails_a_day_later() -> None:
    world, clock = World(), HandClock()
    flow = pipeline(world)
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, GIVEN, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(86_401)
        result = await trail.flow("f").resume(flow)
    assert result.error is not None
    assert (result.error.node_id, result.error.failure) == ("review", FailureClass.EXPIRED)
    assert world.done == {"parse": 1, INDEX: 1}


PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": {"type": "string"}}},
    "required": ["questions"],
}


def research(world: World, *reports: str) -> BuiltWorkflow:
    left = list(reports)

    def reply(request: ModelRequest) -> Any:
        asked = request.messages[-1].text
        return say('{"questions": ["who", "why", "when"]}' if asked.startswith("Three questions") else left.pop(0))

    @tool(effect=ToolEffect.READ)
    async def web(q: str) -> str:
        """Search the web."""
        return await world.do(f"search {q}")

    model = ScriptedModel([reply, reply])
    critic = AgentBuilder("critic").with_model(ScriptedModel(["Sources."])).build()
    from_database, from_archive = world.function("database"), world.function("archive")
    return (
        Workflow("research")
        .llm("plan", model, prompt="Three questions about {{ input.topic }}", schema=PLAN, output="plan")
        .map(
            "search",
            over="plan.questions",
            tool=web,
            args={"q": "{{ item }}"},
            concurrency=4,
            on_item_error="record",
            output="hits",
        )
        .agent("critic", critic, prompt="What is missing in {{ vars.plan }}?", output="critique")
        .function("facts", from_database, output="facts", retry=RetryPolicy(max_attempts=2))
        .function("old_facts", from_archive, output="facts")
        .merge("join", strategy="json", conflict="error")
        .llm("report", model, prompt="{{ vars.hits }} {{ vars.facts }} {{ vars.critique }}", output="report")
        .noop("done")
        .conditional("good", [Case("size(vars.report) > 400", to="done")], default="plan")
        .edge("plan", "search", "critic", "facts")
        .edge("facts", "old_facts", when="error")
        .edge(("search", "critic", "facts", "old_facts"), "join")
        .chain("join", "report", "good", "done")
        .edge("good", "plan", loop=True)
        .build()
    )


async def test_a_research_goes_round_until_its_report_is_long_enough() -> None:
    world, clock = World(), HandClock()
    world.breaks["search why"] = ValueError("no such word")
    away = ConnectionError("the database is away")
    world.fails["database"] = [away, away, None]
    flow = research(world, "too short", "x" * 401)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, {"topic": "tea"})
        opened = [event.node for event in await events_of(trail) if isinstance(event, NodeOpened)]
        below = [row for row in await trail.runs() if row.parent is not None]
    assert result.status is ExecutionStatus.COMPLETED
    seen = result.envelope.vars
    assert (seen["report"], seen["critique"]) == ("x" * 401, "Sources.")
    assert seen["hits"] == ["search who is done", None, "search when is done"]
    assert (seen["facts"], "facts_error" in seen) == ("database is done", False)
    assert sorted(opened) == sorted(
        [*(2 * ["plan", "search", "critic", "facts", "join", "report", "good"]), "old_facts", "done"]
    )
    assert world.done["database"] == 3
    assert (world.done["archive"], len(below)) == (1, 2)
    assert sorted((error.node_id, error.visit, error.item) for error in result.errors) == [
        ("facts", 1, None),
        ("search", 1, 1),
        ("search", 2, 1),
    ]
