"""An execution that is gone on with by an agent that was changed meanwhile: what differs is recorded, or refused."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, TypeAdapter

from steptrail import AgentBuilder, Limits, Steptrail, tool
from steptrail.errors import CommandRejected
from steptrail.events import ExecutionResumed
from steptrail.testing import ScriptedModel, call


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@tool
def look(place: str) -> str:
    """Look."""
    return "nothing"


def agent(name: str = "clerk") -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel([call("pay", cents=1), "Done."])).with_tools(pay)


CHANGED = [
    (agent("cashier"), ("name",)),
    (agent().with_system_prompt("Be brief."), ("system_prompt",)),
    (agent().with_tools(look), ("tool look added",)),
    (AgentBuilder("clerk").with_model(ScriptedModel(["Done."])), ("tool pay removed",)),
]


@pytest.mark.parametrize(("changed", "names"), CHANGED, ids=[" ".join(names) for _, names in CHANGED])
async def test_what_was_changed_is_named_by_a_strict_resume_and_recorded_by_another(
    changed: AgentBuilder, names: tuple[str, ...]
) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(agent().build(), "Pay.", session="s")).status == "waiting"
        session = trail.session("s")
        with pytest.raises(CommandRejected, match=f"the agent is not the recorded one: {', '.join(names)}$"):
            await session.resume(changed.build(), strict=True)
        await session.approve("s:1:1:0", by="ana")
        await session.resume(changed.build())
        resumed = [record.event for record in await session.events() if isinstance(record.event, ExecutionResumed)]
        assert [event.changes for event in resumed] == [names]


async def test_limits_and_policy_alone_are_named_as_such_by_a_strict_resume() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent().build(), "Pay.", session="s")
        with pytest.raises(CommandRejected, match="not the recorded one: limits or error policy"):
            await trail.session("s").resume(agent().with_limits(Limits(max_steps=3)).build(), strict=True)


def shouted() -> TypeAdapter[str]:
    """Return the same type anew, as another process makes it: its function lies elsewhere in memory."""

    def shout(word: str) -> str:
        return word.upper()

    return TypeAdapter(Annotated[str, AfterValidator(shout)])


async def test_an_agent_whose_types_have_functions_is_the_same_in_another_process() -> None:
    builders = [agent().with_output(kind).with_context(kind) for kind in (shouted(), shouted())]
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(builders[0].build(), "Pay.", session="s", context="ana")
        assert (await trail.session("s").resume(builders[1].build(), strict=True)).status == "waiting"
