"""A session that begins with a conversation that was held elsewhere."""

import asyncio

import pytest

from steptrail import Message, RunResult
from steptrail.errors import CommandRejected
from steptrail.messages import ToolCallPart
from steptrail.testing import ScriptedModel
from tests.runner.kit import agent_of, trail_of

TOLD = [Message.user("Tea?"), Message.assistant("Three boxes.")]


def begun_with(history: list[Message]) -> tuple[RunResult, list[Message]]:
    model = ScriptedModel(["Of course."])
    agent = agent_of([]).with_model(model).build()

    async def scenario() -> RunResult:
        async with trail_of() as trail:
            return await trail.run(agent, "Sure?", session="s", history=history)

    return asyncio.run(scenario()), list(model.requests[0].messages)


def test_the_model_sees_it_before_the_input_and_it_stays_in_the_log() -> None:
    result, asked = begun_with(TOLD)
    assert asked == [*TOLD, Message.user("Sure?")]
    assert list(result.state.messages) == [*asked, Message.assistant("Of course.")]


def test_a_call_in_it_that_nobody_answered_is_answered_with_an_unknown_outcome() -> None:
    calls = tuple(ToolCallPart(id=each, name="add", arguments={}) for each in ("c1", "c2"))
    cut = [Message.user("Add."), Message.assistant(tool_calls=calls), Message.tool("c1", "add", "3")]
    for history in (cut, [*cut, *TOLD]):
        _, asked = begun_with(history)
        (missing,) = asked[3].parts
        assert missing.kind == "tool_result"
        assert (missing.call_id, missing.is_error) == ("c2", True)
        assert "outcome of this call is unknown" in missing.text
        assert asked[4:-1] == history[3:]


def test_a_session_that_exists_takes_no_other_past() -> None:
    async def scenario() -> None:
        agent = agent_of(["One.", "Two."]).build()
        async with trail_of() as trail:
            await trail.run(agent, "go", session="s", key="k", history=TOLD)
            again = await trail.run(agent, "go", session="s", key="k", history=TOLD)
            assert again.output == "One."
            with pytest.raises(CommandRejected, match="has one of its own"):
                await trail.run(agent, "more", session="s", history=TOLD)
            assert (await trail.session("s").state()).step_count == 1

    asyncio.run(scenario())


def test_what_is_to_be_new_takes_no_session_that_exists_and_may_be_asked_for_again() -> None:
    async def scenario() -> None:
        agent = agent_of(["One.", "Two."]).build()
        async with trail_of() as trail:
            await trail.run(agent, "go", session="s", key="k", metadata={"owner": "ana"}, new=True)
            again = await trail.run(agent, "go", session="s", key="k", new=True)
            assert (again.output, again.stored) == ("One.", True)
            with pytest.raises(CommandRejected, match="it exists already"):
                await trail.run(agent, "more", session="s", metadata={"owner": "bob"}, new=True)
            state = await trail.session("s").state()
            assert (state.metadata["owner"], state.fold.executions) == ("ana", 1)

    asyncio.run(scenario())


def test_a_stream_and_the_blocking_twin_take_it_too() -> None:
    async def scenario() -> RunResult:
        async with trail_of() as trail, trail.stream(agent_of(["Yes."]).build(), "Sure?", history=TOLD) as stream:
            return await stream.result()

    assert list(asyncio.run(scenario()).state.messages)[:2] == TOLD
