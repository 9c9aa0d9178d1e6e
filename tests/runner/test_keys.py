"""A key stands for one input: the same command is safe to repeat, and another one under it is refused."""

from typing import Any, cast

import pytest

from steptrail import Agent, AgentBuilder
from steptrail.errors import CommandRejected, ConfigurationError
from steptrail.messages import Message
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Workflow
from tests.runner.kit import Crash, again_on, agent_of, crash_at, trail_of


async def test_the_same_input_under_the_same_key_returns_the_stored_result() -> None:
    async with trail_of() as trail:
        first = await trail.run(agent_of(["Paid."]).build(), "Pay 5.", key="order-1")
        again = await trail.run(agent_of(["Paid twice."]).build(), "Pay 5.", key="order-1")
        assert (again.output, again.state.version) == ("Paid.", first.state.version)
        # An input is what it says, however it was given.
        assert (await trail.run(agent_of([]).build(), Message.user("Pay 5."), key="order-1")).output == "Paid."


async def test_another_input_under_a_key_that_has_finished_is_refused_and_changes_nothing() -> None:
    async with trail_of() as trail:
        first = await trail.run(agent_of(["Paid."]).build(), "Pay 5.", session="s", key="order-1")
        with pytest.raises(CommandRejected, match=r"cannot run session 's': the key 'order-1' came with another"):
            await trail.run(agent_of(["Paid more."]).build(), "Pay 500.", session="s", key="order-1")
        assert (await trail.session("s").state()).version == first.state.version
        other = await trail.run(agent_of(["", "Paid more."]).build(), "Pay 500.", session="s", key="order-2")
        assert other.output == "Paid more."
        with pytest.raises(CommandRejected, match="'order-1'"):
            await trail.run(agent_of(["No."]).build(), "Pay 500.", session="s", key="order-1")


async def test_another_input_under_a_key_that_has_not_finished_is_refused_too() -> None:
    async with trail_of(reach=crash_at("after-inference")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent_of(["Paid."]).build(), "Pay 5.", session="s", key="order-1")
        other = again_on(trail)
        with pytest.raises(CommandRejected, match="came with another input"):
            await other.run(agent_of(["Paid more."]).build(), "Pay 500.", session="s", key="order-1")
        assert (await other.run(agent_of(["Paid."]).build(), "Pay 5.", session="s", key="order-1")).output == "Paid."


@pytest.mark.parametrize("session", [None, "s"])
async def test_a_key_that_came_with_another_agent_or_workflow_is_refused_and_not_answered_by_that(
    session: str | None,
) -> None:
    def agent(name: str) -> Agent:
        return AgentBuilder(name).with_model(ScriptedModel([f"{name} says so."])).build()

    def flow(name: str) -> BuiltWorkflow:
        return Workflow(name).noop("a").build()

    refused = r"the key 'order-1' came with 'triage' before, not 'writer': use another key for this one"
    async with trail_of() as trail:
        first = await trail.run(agent("triage"), "Order 1.", session=session, key="order-1")
        at, writer = trail.session(first.session_id), agent("writer")
        for give in (
            lambda: trail.run(writer, "Order 1.", session=session, key="order-1"),
            lambda: trail.start(writer, "Order 1.", session=session, key="order-1"),
            lambda: at.send(writer, "Order 1.", key="order-1"),
            lambda: at.post(writer, "Order 1.", key="order-1"),
        ):
            with pytest.raises(CommandRejected, match=refused):
                await give()
        assert (await trail.run(agent("triage"), "Order 1.", session=session, key="order-1")).stored
        done = await trail.run(flow("triage"), {"order": 1}, session=session, key="order-1")
        for start in (trail.run, trail.start):
            with pytest.raises(CommandRejected, match=refused):
                await start(flow("writer"), {"order": 1}, session=session, key="order-1")
        assert (await trail.run(flow("triage"), {"order": 1}, session=session, key="order-1")).stored
        assert done.status.value == "completed"


async def test_a_key_of_something_that_was_sent_is_none_of_the_run_it_was_sent_to() -> None:
    async with trail_of() as trail:
        await trail.run(agent_of(["One."]).build(), "Begin.", session="s", key="first")
        sent = await trail.session("s").send(agent_of(["One.", "Two."]).build(), "And then?", key="second")
        again = await trail.session("s").send(agent_of(["Three."]).build(), "And then?", key="second")
        assert (sent.output, again.output) == ("Two.", "Two.")
        assert (await trail.run(agent_of([]).build(), "And then?", session="s", key="second")).output == "Two."


@pytest.mark.parametrize("first", ["first", None])
async def test_a_start_does_not_take_a_key_that_it_could_not_keep(first: str | None) -> None:
    """The same delivery that came again after the end would be answered a second time."""
    agent = agent_of(["Paid.", "Paid again."]).build()
    async with trail_of() as trail:
        session = await trail.start(agent, "Pay.", session="s", key=first)
        await trail.start(agent, "Pay.", session="s", key=first)
        with pytest.raises(CommandRejected, match=r"and answers this input without this key: .*`run` goes on"):
            await trail.start(agent, "Pay.", session="s", key="second")
        await trail.start(agent, "Pay.", session="s")
        assert len(await session.events()) == 2
        assert (await trail.run(agent, "Pay.", session="s", key="second")).output == "Paid."
        await trail.start(agent, "Pay.", session="s", key="second")
        assert (await session.result()).output == "Paid."


@pytest.mark.parametrize("key", ["", "  "])
async def test_an_empty_key_would_be_everybodys_and_is_refused(key: str) -> None:
    agent, flow = agent_of(["hi"]).build(), Workflow("w").noop("a").build()
    async with trail_of() as trail:
        for give in (
            lambda: trail.run(agent, "go", key=key),
            lambda: trail.run(agent, "go", session="s", key=key),
            lambda: trail.session("s").send(agent, "go", key=key),
            lambda: trail.start(agent, "go", key=key),
            lambda: trail.run(flow, key=key),
        ):
            with pytest.raises(ConfigurationError, match="key: it is empty: leave it out, or give one that names"):
                await give()
        assert await trail.runs() == []


async def test_an_empty_session_would_be_another_one_at_each_call_and_is_refused() -> None:
    agent, flow = agent_of(["hi"]).build(), Workflow("w").noop("a").build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        for give in (
            lambda: trail.run(agent, "go", session=""),
            lambda: trail.run(agent, "go", session="", key="k"),
            lambda: trail.start(agent, "go", session=""),
            lambda: trail.session("s").fork(session=""),
            lambda: trail.run(flow, session=""),
            lambda: trail.start(flow, session=""),
        ):
            with pytest.raises(ConfigurationError, match=r"'' cannot be (a session id|the id of a run)"):
                await give()
        assert [row.session_id for row in await trail.runs()] == ["s"]


async def test_the_commit_of_what_is_only_stored_names_what_led_to_it() -> None:
    async with trail_of() as trail:
        agent = agent_of(["One.", "Two."]).build()
        session = await trail.start(agent, "go", session="s", cause="request-1")
        await session.post(agent, "and more", cause="request-2")
        await session.resume(agent)
        await session.post(agent, "again", cause="request-3")
        heads = [record.head for record in await session.events() if record.head is not None]
        named = [head.causation for head in heads if head.causation is not None]
        assert list(dict.fromkeys(named)) == ["request-1", "request-2", "request-3"]
        assert heads[-1].causation == "request-3"
        flow, start = Workflow("sum").function("a", lambda _: 1, output="a").build(), cast("Any", trail.start)
        with pytest.raises(ConfigurationError, match="a workflow is run without `cause`: that is for agents"):
            await start(flow, session="f", cause="request-4")
