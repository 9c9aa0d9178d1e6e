"""Code with another context goes on with what older code has begun: nothing is said or given up for nothing."""

from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.errors import StoredContextInvalid
from steptrail.events import MessagesAppended
from steptrail.testing import ScriptedModel, call
from steptrail.tools import Subagent, SubagentTool
from steptrail.workflow import BuiltWorkflow, Workflow
from tests.runner.kit import trail_of


class Old(BaseModel):
    tenant: str


class New(Old):
    region: str


CONTEXTS: dict[type[Old] | None, Old | None] = {
    None: None,
    Old: Old(tenant="acme"),
    New: New(tenant="acme", region="eu"),
}


@tool(effect=ToolEffect.UNSAFE, approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def clerk(kind: type[Old] | None) -> Agent[Any, Any]:
    builder = AgentBuilder("clerk").with_model(ScriptedModel([call("pay"), "It is paid."])).with_tools(pay)
    return (builder if kind is None else builder.with_context(kind)).build()


def boss(kind: type[Old] | None) -> Agent[Any, Any]:
    """Return an agent above the clerk."""
    below = SubagentTool(Subagent(agent=clerk(kind), context=CONTEXTS[kind]), name="clerk")
    model = ScriptedModel([call("clerk", prompt="Pay."), "Done."])
    policy = ErrorPolicy.ignore_tool_errors()
    return AgentBuilder("boss").with_model(model).with_tools(below).with_error_policy(policy).build()


def flow(kind: type[Old] | None) -> BuiltWorkflow:
    """Return a workflow above the clerk."""
    said = CONTEXTS[kind]
    context = None if said is None else said.model_dump()
    return Workflow("w").agent("clerk", clerk(kind), prompt="Pay.", context=context, output="said").build()


async def resumed(trail: Steptrail, above: str, kind: type[Old] | None) -> Any:
    if above == "agent":
        return await trail.session("s").resume(boss(kind))
    return await trail.flow("s").resume(flow(kind))


@pytest.mark.parametrize("before", [None, Old], ids=["none before", "another before"])
async def test_a_message_that_nobody_could_answer_is_not_stored(before: type[Old] | None) -> None:
    async with trail_of() as trail:
        session = trail.session("s")
        await trail.run(clerk(before), "Pay.", session="s", context=CONTEXTS[before])
        with pytest.raises(StoredContextInvalid, match="a `context` that is given to `resume` replaces it"):
            await session.send(clerk(New), "At once.")
        assert not [each for each in await session.events() if isinstance(each.event, MessagesAppended)]


async def test_what_is_said_next_with_another_context_replaces_that_of_a_run_that_is_over() -> None:
    async with trail_of() as trail:
        session = trail.session("s")
        await trail.run(clerk(Old), "Pay.", session="s", context=CONTEXTS[Old])
        await session.stop(by="ana")
        for asked in (session.send(clerk(New), "Again."), session.retry(clerk(New))):
            with pytest.raises(StoredContextInvalid, match="region: Field required; another `context` that is given"):
                await asked
        again = await session.send(clerk(New), "Again.", context=CONTEXTS[New])
        assert again.state.context == {"tenant": "acme", "region": "eu"}


@pytest.mark.parametrize("above", ["agent", "flow"])
@pytest.mark.parametrize("before", [None, Old], ids=["none before", "another before"])
async def test_what_is_above_a_session_with_an_older_context_waits_until_that_is_replaced(
    above: str, before: type[Old] | None
) -> None:
    async with trail_of() as trail:
        if above == "agent":
            await trail.run(boss(before), "Go.", session="s")
        else:
            await trail.run(flow(before), session="s")
        (asked,) = await trail.inbox()
        below = trail.session(asked.stream.removeprefix("agent:"))
        waits = await resumed(trail, above, New)
        assert (waits.status, len(await trail.inbox())) == ("waiting", 1)

        await below.resume(clerk(New), context=CONTEXTS[New])
        await below.approve(asked.id, by="ana")
        ended = await resumed(trail, above, New)
        assert (ended.status, (await below.state()).output) == ("completed", "It is paid.")
