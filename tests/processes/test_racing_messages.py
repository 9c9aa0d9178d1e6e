"""Somebody else is quicker, between the look at a session and its lease: nothing is lost, done twice, or mistaken."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from steptrail.domain.agent.events import AgentEvent, ExecutionStarted, MessagesAppended
from steptrail.domain.errors import SessionBusy
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.messages import Message
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.scripted_model import Reply, ScriptedModel
from tests.processes.scene import NAME, Scene, agent_of


def quicker(scene: Scene, act: Callable[[], Awaitable[object]]) -> None:
    """Have somebody act after the owner has looked, and before it takes the lease."""

    async def moment(stream: str) -> None:
        del stream
        scene.store.before_acquire = nobody
        await act()

    async def nobody(stream: str) -> None:
        del stream

    scene.store.before_acquire = moment


async def said(scene: Scene) -> list[str]:
    texts: list[str] = []
    for record in await scene.other.events():
        event: AgentEvent = record.event
        match event:
            case ExecutionStarted(input=Message() as message):
                texts.append(message.text)
            case MessagesAppended(messages=messages):
                texts += [message.text for message in messages]
            case _:
                pass
    return texts


async def test_a_message_is_said_in_the_next_execution_when_somebody_else_has_just_had_one() -> None:
    scene, agent = Scene(), agent_of("One.", "Two.", "Three.")
    await scene.owner.run(agent, "Hello.", session=NAME)
    quicker(scene, lambda: scene.other.send(agent, "Me first."))
    result = await scene.owner.session(NAME).send(agent, "And me.")
    assert (result.output, await said(scene)) == ("Three.", ["Hello.", "Me first.", "And me."])


class Held(ScriptedModel):
    """Answers when it is let."""

    def __init__(self, *script: Reply) -> None:
        super().__init__(script)
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def infer(self, request: ModelRequest) -> ModelReply:
        self.is_asked.set()
        await self.may_answer.wait()
        return await super().infer(request)


@pytest.mark.parametrize("words", ["And me.", "Me first."], ids=["other words", "the same words"])
async def test_a_message_joins_the_execution_that_somebody_else_has_just_begun(words: str) -> None:
    scene, model = Scene(), Held("One.", "Two.", "Three.")
    agent = AgentBuilder("held").with_model(model).build()
    running: list[asyncio.Task[object]] = []

    async def begun() -> None:
        running.append(asyncio.create_task(scene.other.send(agent, "Me first.")))
        await model.is_asked.wait()

    quicker(scene, begun)
    joined = await scene.owner.session(NAME).send(agent, words)
    assert joined.status == "in_progress"
    model.may_answer.set()
    await asyncio.gather(*running)
    state = await scene.other.state()
    assert (state.fold.executions, state.output, await said(scene)) == (1, "Two.", ["Me first.", words])


async def test_an_input_that_somebody_else_has_just_had_answered_is_not_answered_again() -> None:
    scene, agent = Scene(), agent_of("One.", "Two.")
    other = Steptrail(Environment(store=scene.store.inner, worker="other"))
    quicker(scene, lambda: other.run(agent, "Go.", session=NAME))
    result = await scene.owner.run(agent, "Go.", session=NAME)
    assert (result.output, result.stored, await said(scene)) == ("One.", True, ["Go."])


async def test_a_retry_of_what_somebody_else_has_just_retried_is_busy_also_when_that_has_failed_again() -> None:
    scene, agent = Scene(), agent_of(PermissionError("no"), PermissionError("no"), "Yes.")
    await scene.owner.run(agent, "Go.", session=NAME)
    quicker(scene, lambda: scene.other.retry(agent))
    with pytest.raises(SessionBusy):
        await scene.owner.session(NAME).retry(agent)
    assert len(await scene.events(ExecutionStarted)) == 2
    assert (await scene.owner.session(NAME).retry(agent)).output == "Yes."


async def test_a_retry_under_the_key_of_one_that_somebody_else_has_just_made_is_that_one() -> None:
    scene, agent = Scene(), agent_of(PermissionError("no"), "Yes.", "Yes again.")
    await scene.owner.run(agent, "Go.", session=NAME)
    quicker(scene, lambda: scene.other.retry(agent, key="k"))
    result = await scene.owner.session(NAME).retry(agent, key="k")
    assert (result.output, result.stored, len(await scene.events(ExecutionStarted))) == ("Yes.", True, 2)
