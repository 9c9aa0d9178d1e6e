"""A session that begins with a conversation that was held elsewhere."""

import pytest

from steptrail import HookType, Message, RunResult
from steptrail.domain.agent.given_history import in_order
from steptrail.errors import CommandRejected, ConfigurationError
from steptrail.hooks import CallableHook, HookState
from steptrail.messages import ToolCallPart
from steptrail.testing import ScriptedModel
from tests.harness.beside_the_loop import beside_the_loop
from tests.runner.kit import again_on, agent_of, hook, run, trail_of

TOLD = [Message.user("Tea?"), Message.assistant("Three boxes.")]


async def begun_with(history: list[Message]) -> tuple[RunResult, list[Message]]:
    model = ScriptedModel(["Of course."])
    agent = agent_of([]).with_model(model).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "Sure?", session="s", history=history)
    return result, list(model.requests[0].messages)


async def test_the_model_sees_it_before_the_input_and_it_stays_in_the_log() -> None:
    result, asked = await begun_with(TOLD)
    assert asked == [*TOLD, Message.user("Sure?")]
    assert list(result.state.messages) == [*asked, Message.assistant("Of course.")]


async def test_a_call_in_it_that_nobody_answered_is_answered_with_an_unknown_outcome() -> None:
    calls = tuple(ToolCallPart(id=each, name="add", arguments={}) for each in ("c1", "c2"))
    cut = [Message.user("Add."), Message.assistant(tool_calls=calls), Message.tool("c1", "add", "3")]
    for history in (cut, [*cut, *TOLD]):
        _, asked = await begun_with(history)
        (missing,) = asked[3].parts
        assert missing.kind == "tool_result"
        assert (missing.call_id, missing.is_error) == ("c2", True)
        assert "outcome of this call is unknown" in missing.text
        assert asked[4:-1] == history[3:]


async def test_a_long_one_is_checked_and_copied_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.domain.agent.commands.in_order", beside_the_loop(in_order))
    told = [Message.user(f"Tea {number}?") for number in range(1_001)]
    _, asked = await begun_with(told)
    assert asked[:-1] == told


async def test_a_session_that_exists_takes_no_other_past() -> None:
    agent = agent_of(["One.", "Two."]).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s", key="k", history=TOLD)
        again = await trail.run(agent, "go", session="s", key="k", history=TOLD)
        assert again.output == "One."
        with pytest.raises(CommandRejected, match="has one of its own"):
            await trail.run(agent, "more", session="s", history=TOLD)
        assert (await trail.session("s").state()).step_count == 1


async def test_what_is_to_be_new_takes_no_session_that_exists_and_may_be_asked_for_again() -> None:
    agent = agent_of(["One.", "Two."]).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s", key="k", metadata={"owner": "ana"}, new=True)
        again = await trail.run(agent, "go", session="s", key="k", new=True)
        assert (again.output, again.stored) == ("One.", True)
        with pytest.raises(CommandRejected, match="it exists already"):
            await trail.run(agent, "more", session="s", metadata={"owner": "bob"}, new=True)
        state = await trail.session("s").state()
        assert (state.metadata["owner"], state.fold.executions) == ("ana", 1)


async def test_a_stream_and_the_blocking_twin_take_it_too() -> None:
    async with trail_of() as trail, trail.stream(agent_of(["Yes."]).build(), "Sure?", history=TOLD) as stream:
        assert list((await stream.result()).state.messages)[:2] == TOLD


ORPHAN = Message.tool("c1", "add", "3")
UNANSWERED = Message.assistant(tool_calls=(ToolCallPart(id="c1", name="add", arguments={}),))


async def test_a_result_whose_call_was_trimmed_away_is_left_out() -> None:
    _, asked = await begun_with([ORPHAN, *TOLD])
    assert asked == [*TOLD, Message.user("Sure?")]


@pytest.mark.parametrize("said", [ORPHAN, UNANSWERED])
async def test_what_no_provider_would_take_is_refused_at_the_door_and_the_session_goes_on(said: Message) -> None:
    agent = agent_of(["One.", "Two."]).build()
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match="`run` takes a call of a tool only with its result"):
            await trail.run(agent, said, session="s")
        await trail.run(agent, "go", session="s")
        with pytest.raises(ConfigurationError, match="a call of a tool only with its result"):
            await trail.session("s").send(agent, said)
        assert (await trail.session("s").send(agent, "more")).output == "Two."


@pytest.mark.parametrize("said", [ORPHAN, UNANSWERED])
async def test_it_is_refused_while_a_run_is_open_too(said: Message) -> None:
    async with trail_of() as trail:
        refused: list[Exception] = []

        async def interrupt(state: HookState) -> HookState:
            if not refused:
                with pytest.raises(ConfigurationError, match="`send` takes a call of a tool only") as caught:
                    await again_on(trail).session("s").send(agent, said)
                refused.append(caught.value)
            return state

        agent = agent_of(["One."], (HookType.BEFORE_STEP, CallableHook(interrupt))).build()
        assert (await trail.run(agent, "go", session="s")).output == "One."
        assert refused


@pytest.mark.parametrize("said", [ORPHAN, UNANSWERED])
@pytest.mark.parametrize("method", ["with_messages", "with_request"])
async def test_a_hook_that_says_it_has_failed_and_the_next_request_is_sound(said: Message, method: str) -> None:
    def say_it(state: HookState) -> HookState:
        if method == "with_messages":
            return state.with_messages(said)
        return state.with_request(extra_messages=(said,))

    ran = await run(agent_of(["One."], (HookType.BEFORE_INFERENCE, hook("h", say_it))).build())
    assert ran.ending == ("failed", "error")
    assert [message.role for message in ran.result.state.messages] == ["user"]


async def test_a_hook_may_say_a_call_together_with_its_result() -> None:
    whole = (UNANSWERED, ORPHAN)
    ran = await run(
        agent_of(["One."], (HookType.EXECUTION_START, hook("h", lambda s: s.with_messages(*whole)))).build()
    )
    assert ran.result.state.messages[1:3] == list(whole)


def test_examples_are_looked_at_when_the_agent_is_put_together() -> None:
    with pytest.raises(ConfigurationError, match="agent 'calc': `with_examples` takes a call of a tool only with"):
        agent_of([]).with_examples(Message.user("Add."), UNANSWERED)
    shown = (Message.user("Add."), UNANSWERED, ORPHAN, Message.assistant("3."))
    assert agent_of([]).with_examples(*shown).build().snapshot.examples == shown


async def test_a_request_that_names_a_tool_which_is_not_there_fails_its_hook() -> None:
    ran = await run(
        agent_of(["One."], (HookType.BEFORE_INFERENCE, hook("h", lambda s: s.with_request(tools=("serch",))))).build()
    )
    assert ran.ending == ("failed", "error")
    assert ran.result.outcome is not None
    (said,) = [vote.reason for vote in ran.result.outcome.evaluations if vote.criterion_class == "h"]
    assert "there is no tool 'serch'; the tools are: add, fail" in said
    assert "inference.started" not in ran.types
