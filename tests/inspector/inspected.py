"""A store with a run of each kind that the inspector shows: open, ended, crashed, of agents and of workflows."""

from collections.abc import Sequence

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow
from tests.runner.kit import Crash, crash_at

HOSTILE = "<script>document.title='taken'</script>\"'><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m\u202eback{{ 7*7 }}"
"""A text that is dangerous wherever it is not only shown."""


WANTED: dict[str, JsonValue] = {"order": "A-7", "cents": 48_151_623, "password": "hunter2"}


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=72 * 3600, reason="it moves money"))
def refund(order: str, cents: int, password: str = "") -> str:
    """Refund an order."""
    return f"{cents} cents of order {order} refunded, {len(password)}"


@tool(effect=ToolEffect.READ)
def search(query: str) -> object:
    """Search for something."""
    return {"query": query, "found": ["a box of tea", "a shelf"], "api_key": "sk-live-123456789"}


@tool(effect=ToolEffect.READ)
def look_up(key: str) -> str:
    """Look a key up."""
    raise KeyError(key)


def desk(*script: Reply, name: str = "desk") -> Agent:
    return AgentBuilder(name).with_model(ScriptedModel(script)).with_tools(refund, search, look_up).build()


def publisher() -> BuiltWorkflow:
    """Return a workflow that tolerates a failure and asks a person."""

    def write(envelope: Envelope) -> object:
        return {"text": f"about {envelope.input}"}

    def count(envelope: Envelope) -> object:
        raise TimeoutError("the counter did not answer")

    return (
        Workflow("publish", result="draft")
        .function("write", write, output="draft")
        .function("count", count, output="words", on_error="continue")
        .human("review", type="approval", prompt="Publish <b>it</b>?", output="review")
        .function("publish", write, output="published")
        .chain("write", "count", "review", "publish")
        .build()
    )


async def build(store: str) -> None:
    """Make the runs: each id says how it stands."""
    async with Steptrail.open(store) as trail:
        await trail.run(
            desk(
                call("search", query="tea"),
                calls(("search", {"query": "attic"}), ("search", {"query": "cellar"})),
                "Tea.",
            ),
            "Where is the tea?",
            session="answered",
            metadata={"tenant": "acme", "tags": {"user": "u7"}},
        )
        await trail.run(
            desk(call("search", query="x"), call("look_up", key="missing"), "no"),
            "Look it up",
            session="failed",
            metadata={"tenant": "other"},
        )
        await trail.run(desk(calls(("refund", WANTED))), "Refund it", session="asks")
        await trail.run(desk(call("search", query="a"), call("search", query="b"), "late"), "Hurry", session="limited")
        await trail.run(family(), "Do it together", session="family")
        await trail.run(publisher(), "tea", session="review")
        done = await trail.run(publisher(), "milk", session="published")
        assert done.state.is_open
        await trail.flow("published").answer("review", approved=True, by="ana")
        await trail.flow("published").resume(publisher())
        await _hostile(trail)
    async with Steptrail(Environment(store=open_store(store), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.run(desk("never said"), "Crash", session="crashed")


def family() -> Agent:
    inner = AgentBuilder("inner").with_model(ScriptedModel(["Found."] * 9)).build()
    script: Sequence[Reply] = [calls(("inner", {"prompt": "left"}), ("inner", {"prompt": "right"})), "Both."]
    return AgentBuilder("outer").with_model(ScriptedModel(script)).with_tools(SubagentTool(inner)).build()


async def _hostile(trail: Steptrail) -> None:
    @tool(name="echo", effect=ToolEffect.READ)
    def echo(text: str) -> object:
        """Say it again."""
        return {HOSTILE: text}

    @tool(name="burn", effect=ToolEffect.READ)
    def burn(text: str) -> str:
        """Fail."""
        raise RuntimeError(HOSTILE)

    script = [calls(("echo", {"text": HOSTILE}), text=HOSTILE), call("burn", text=HOSTILE), HOSTILE]
    agent = AgentBuilder(HOSTILE).with_model(ScriptedModel(script)).with_tools(echo, burn)
    await trail.run(
        agent.with_error_policy(ErrorPolicy.stop_on_any_error()).build(), HOSTILE, session="hostile", by=HOSTILE
    )
