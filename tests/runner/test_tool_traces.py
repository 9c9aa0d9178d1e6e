"""What a model is shown of the calls of earlier executions: all of it, or with the setting none; the history stays."""

from collections.abc import Sequence
from typing import Any

import pytest

from steptrail import Agent, ErrorPolicy, HookType, Message
from steptrail.domain.agent.events import InferenceStarted
from steptrail.domain.inference import ModelRequest
from steptrail.hooks import CallableHook, HookState
from steptrail.messages import ToolCallPart
from steptrail.runtime.agent.request import recorded_requests
from steptrail.testing import Reply, ScriptedModel, call
from tests.runner.invoices import Invoice
from tests.runner.kit import again_on, agent_of, crash_at, dies, trail_of

SCRIPT: list[Reply] = [
    call("add", a=1, b=2),
    "Three.",
    call("fail", why="jammed"),
    call("add", a=2, b=2),
    "Four.",
    "Thanks.",
]


def agent(model: ScriptedModel, *, shown: bool) -> Agent:
    builder = agent_of([]).with_model(model).with_error_policy(ErrorPolicy.ignore_tool_errors())
    return builder.with_system_prompt("Add.").with_earlier_tool_traces(shown).build()


def told(request: ModelRequest) -> list[str]:
    return [message.role.value for message in request.messages]


async def talk(*, shown: bool, history: Sequence[Message] = ()) -> tuple[list[list[str]], list[str]]:
    """Say three things, and return the roles of each request and of the stored conversation."""
    model = ScriptedModel(SCRIPT)
    async with trail_of() as trail:
        await trail.run(agent(model, shown=shown), "One and two?", session="s", history=history)
        await trail.session("s").send(agent(model, shown=shown), "And two and two?")
        result = await trail.session("s").send(agent(model, shown=shown), "Good.")
        records = await trail.session("s").events()
        made = [record.event.request_digest for record in records if isinstance(record.event, InferenceStarted)]
        assert [digest for _, _, digest in recorded_requests("s", records)] == made
        assert len(set(made)) == len(SCRIPT)
        stored = [message.role.value for message in result.state.messages]
        shown_now = [message for piece in result.state.request_messages for message in piece]
        assert shown_now[:-1] == list(model.requests[-1].messages)[1:]
    return [told(request) for request in model.requests], stored


S, U, A, T = "system", "user", "assistant", "tool"
EVERYTHING = [U, A, T, A, U, A, T, A, T, A, U, A]


async def test_by_default_a_model_is_shown_every_call_of_the_session() -> None:
    requests, stored = await talk(shown=True)
    assert requests[2] == [S, U, A, T, A, U]
    assert requests[-1] == [S, *EVERYTHING[:-1]]
    assert stored == EVERYTHING


async def test_without_earlier_traces_it_is_shown_what_was_asked_and_answered_and_the_calls_since_the_input() -> None:
    requests, stored = await talk(shown=False)
    assert requests == [
        [S, U],
        [S, U, A, T],
        [S, U, A, U],
        # A call that failed always reaches the next model call.
        [S, U, A, U, A, T],
        [S, U, A, U, A, T, A, T],
        [S, U, A, U, A, U],
    ]
    assert stored == EVERYTHING


async def test_calls_of_a_given_history_are_earlier_ones_too() -> None:
    wanted = Message.assistant(tool_calls=(ToolCallPart(id="c", name="add", arguments={}),))
    history = [Message.user("Before?"), wanted, Message.tool("c", "add", "3"), Message.assistant("Three.")]
    requests, stored = await talk(shown=False, history=history)
    assert requests[0] == [S, U, A, U]
    assert stored == [U, A, T, A, *EVERYTHING]


@pytest.mark.parametrize("number", range(1, 5))
async def test_after_a_crash_the_requests_are_the_same(number: int) -> None:
    model = ScriptedModel(SCRIPT)
    async with trail_of() as calm:
        await calm.run(agent(ScriptedModel(SCRIPT), shown=False), "One and two?", session="s")
        crashing = again_on(calm, reach=crash_at("before-inference", number))
        with dies(number, 3):
            await crashing.session("s").send(agent(model, shown=False), "And two and two?")
        await again_on(calm).session("s").resume(agent(model, shown=False))
    seen = [told(request) for request in model.requests]
    assert seen == [[S, U, A, U], [S, U, A, U, A, T], [S, U, A, U, A, T, A, T]]


def test_it_is_recorded_with_the_agent_and_a_resume_says_that_it_changed() -> None:
    one, other = (agent(ScriptedModel(["Hi."]), shown=shown).snapshot for shown in (True, False))
    assert (one.earlier_tool_traces, other.earlier_tool_traces) == (True, False)
    assert one.fingerprint != other.fingerprint


async def test_hooks_see_the_whole_conversation_all_the_same() -> None:
    seen: list[int] = []

    def look(state: HookState) -> HookState:
        seen.append(len(state.messages))
        return state

    model = ScriptedModel(SCRIPT)
    hooked = agent_of([], (HookType.BEFORE_INFERENCE, CallableHook(look))).with_model(model)
    ready = hooked.with_error_policy(ErrorPolicy.ignore_tool_errors()).with_earlier_tool_traces(False).build()
    async with trail_of() as trail:
        await trail.run(ready, "One and two?", session="s")
        await trail.session("s").send(ready, "And two and two?")
    assert seen == [1, 3, 5, 7, 9]


def answering(model: ScriptedModel, name: str | None) -> Agent[Any]:
    """An agent that answers in a call of this name, or in text, and is shown nothing else of earlier calls."""
    builder = agent_of([]).with_model(model).with_earlier_tool_traces(False)
    return (builder.with_output(Invoice, mode="tool", name=name) if name is not None else builder).build()


def names(request: ModelRequest) -> list[str]:
    """The names of the calls that a request shows."""
    return [each.name for message in request.messages for each in message.tool_calls]


async def test_an_answer_stays_where_the_next_agent_answers_in_another_form() -> None:
    replies: list[Reply] = [call("invoice", number="1"), "Hello.", call("bill", number="2")]
    model = ScriptedModel(replies)
    async with trail_of() as trail:
        await trail.run(answering(model, "invoice"), "one", session="s")
        await trail.session("s").send(answering(model, None), "two")
        await trail.session("s").send(answering(model, "bill"), "three")
    assert [told(request) for request in model.requests] == [[U], [U, A, T, U], [U, A, T, U, A, U]]
    assert [names(request) for request in model.requests] == [[], ["invoice"], ["invoice"]]


async def test_the_requests_of_a_resume_by_another_agent_are_built_again_as_they_were() -> None:
    called = Message.assistant(tool_calls=(ToolCallPart(id="c", name="invoice", arguments={"number": "1"}),))
    history = [Message.user("Before?"), called, Message.tool("c", "invoice", "The answer was taken.")]
    async with trail_of() as calm:
        crashing, model = again_on(calm, reach=crash_at("before-inference", 1)), ScriptedModel(["Hello."])
        with dies(1, 1):
            await crashing.run(answering(ScriptedModel([]), "invoice"), "one", session="s", history=history)
        await again_on(calm).session("s").resume(answering(model, None))
        records = await calm.session("s").events()
    made = [record.event.request_digest for record in records if isinstance(record.event, InferenceStarted)]
    rebuilt = [(told(request), digest) for _, request, digest in recorded_requests("s", records)]
    assert rebuilt == list(zip([[U, A, T, U], [U, U]], made, strict=True))
