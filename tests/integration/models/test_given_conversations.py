"""A conversation that was held elsewhere and cut anywhere goes on: every protocol takes the requests it becomes."""

from collections.abc import Awaitable, Callable

import pytest

from steptrail import Agent, AgentBuilder, Message, Steptrail, ToolEffect, tool
from steptrail.errors import ConfigurationError
from steptrail.messages import ToolCallPart
from steptrail.testing.model_script import answer
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import DRIVERS, driver_of


def wants(*ids: str) -> Message:
    return Message.assistant(tool_calls=tuple(ToolCallPart(id=each, name="add", arguments={"a": 1}) for each in ids))


HELD = [
    Message.user("Add."),
    wants("c1", "c2"),
    Message.tool("c1", "add", "3"),
    Message.tool("c2", "add", "4"),
    Message.assistant("Three and four."),
    Message.user("Again."),
    wants("c3"),
    Message.tool("c3", "add", "5"),
    Message.assistant("Five."),
]


@tool(effect=ToolEffect.READ)
def add(a: int) -> int:
    """Add."""
    return a


async def over(protocol: str, server: ModelServer, scenario: Callable[[Steptrail, Agent], Awaitable[None]]) -> None:
    driver = driver_of(protocol, server)
    try:
        async with Steptrail.open("sqlite:///:memory:") as trail:
            await scenario(trail, AgentBuilder("clerk").with_model(driver).with_tools(add).build())
    finally:
        await driver.close()


@pytest.mark.parametrize("protocol", DRIVERS)
async def test_a_history_cut_at_any_two_places_is_taken_and_so_is_what_is_said_next(
    protocol: str, typed_server: ModelServer
) -> None:
    cuts = [(begin, end) for begin in range(len(HELD)) for end in range(begin + 1, len(HELD) + 1)]

    async def scenario(trail: Steptrail, agent: Agent) -> None:
        for begin, end in cuts:
            session = f"s{begin}-{end}"
            first = await trail.run(agent, "Sure?", session=session, history=HELD[begin:end])
            assert (first.status, first.output) == ("completed", "Yes."), (begin, end, first.state.steps[0].errors)
            assert (await trail.session(session).send(agent, "And now?")).output == "Yes.", (begin, end)

    typed_server.play([answer("Yes.")] * (2 * len(cuts)))
    await over(protocol, typed_server, scenario)


@pytest.mark.parametrize("protocol", DRIVERS)
@pytest.mark.parametrize("said", [HELD[2], HELD[1]])
async def test_a_session_outlives_a_message_that_the_provider_would_have_refused(
    protocol: str, said: Message, typed_server: ModelServer
) -> None:
    async def scenario(trail: Steptrail, agent: Agent) -> None:
        await trail.run(agent, "Sure?", session="s")
        with pytest.raises(ConfigurationError):
            await trail.session("s").send(agent, said)
        assert (await trail.session("s").send(agent, "Really?")).output == "Yes."

    typed_server.play([answer("Yes.")] * 2)
    await over(protocol, typed_server, scenario)
