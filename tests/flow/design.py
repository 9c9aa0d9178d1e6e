"""The longer examples of how workflows are written: a pipeline with a person, and a research."""

from typing import Any

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.domain.inference import ModelRequest
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import Budget, BuiltWorkflow, Case, Envelope, RetryPolicy, Workflow
from tests.flow.kit import World


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
