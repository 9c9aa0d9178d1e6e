"""A cancellation, a deadline or a failing store meets an append or an effect that is just ending."""

import asyncio
from collections.abc import Coroutine

import pytest

from steptrail.domain.agent.events import (
    ExecutionPaused,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.flow.events import NodeAttemptStarted
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Commit
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.testing.scripted_model import ScriptedModel, call, calls, say
from steptrail.workflow import Workflow
from tests.processes.scene import NAME, Scene, agent_of, idle, pausing, quiet


async def cancelled_before(
    scene: Scene, moment: type[Event], work: Coroutine[object, object, object], *, said: str | None = None
) -> None:
    """Run this, and cancel it while an event of this kind is on its way to the store, behind what another one says."""
    running = asyncio.create_task(work)

    async def meanwhile() -> None:
        if said is not None:
            await scene.say(said)
        running.cancel()
        await asyncio.sleep(0)

    scene.once_before(moment, meanwhile)
    await asyncio.wait({running})
    assert running.cancelled()


async def test_a_cancellation_is_not_forgotten_when_the_append_in_flight_conflicts() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    work = scene.owner.run(agent, "Go.", session=NAME)
    await cancelled_before(scene, ToolExecutionCompleted, work, said="One more thing.")
    state = await scene.other.state()
    assert state.status == "paused"
    assert len(await scene.events(ToolExecutionCompleted)) == 1


@pytest.mark.parametrize("moment", [ExecutionStarted, InferenceStarted, ToolExecutionStarted, ExecutionPaused])
async def test_a_cancellation_in_any_append_is_a_pause_that_can_be_resumed(moment: type[Event]) -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    if moment is ExecutionPaused:
        scene.store.after_append = pausing(scene)
    await cancelled_before(scene, moment, scene.owner.run(agent, "Go.", session=NAME))
    assert (await scene.other.state()).status == "paused"
    assert len(await scene.events(ExecutionPaused)) == 1
    scene.store.after_append = scene.store.before_append = idle
    result = await scene.owner.session(NAME).resume(agent)
    assert (result.status.value, result.output) == ("completed", "done")


class Racing:
    """A driver whose reply is there in the same turn of the loop in which the caller is cancelled."""

    def __init__(self) -> None:
        self.calls = 0
        self.caller: asyncio.Task[object] | None = None

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="racing", model="racing")

    async def infer(self, request: ModelRequest) -> ModelReply:
        self.calls += 1
        await asyncio.sleep(0)
        if self.caller is not None:
            self.caller.cancel()
        return say("paid for")

    async def close(self) -> None:
        return


async def test_a_reply_that_is_there_when_the_caller_is_cancelled_is_kept() -> None:
    scene, model = Scene(), Racing()
    agent = AgentBuilder("races").with_model(model).build()
    model.caller = asyncio.create_task(scene.owner.run(agent, "Go.", session=NAME))
    await asyncio.wait({model.caller})
    assert model.caller.cancelled()
    assert len(await scene.events(InferenceCompleted)) == 1
    model.caller = None
    result = await scene.owner.session(NAME).resume(agent)
    assert (result.output, model.calls) == ("paid for", 1)


async def test_a_store_that_fails_while_an_effect_is_in_flight_is_not_the_models_failure() -> None:
    scene = Scene()
    asked = asyncio.Event()

    async def fail(stream: str) -> None:
        asked.set()
        raise StoreUnavailable(f"{stream} cannot be read just now")

    class Patient(Racing):
        async def infer(self, request: ModelRequest) -> ModelReply:
            scene.store.before_version = fail
            await asked.wait()
            return say("done")

    agent = AgentBuilder("races").with_model(Patient()).build()
    running = asyncio.create_task(scene.owner.run(agent, "Go.", session=NAME))
    await asked.wait()
    scene.store.before_version = quiet
    assert (await running).output == "done"


async def test_a_deadline_that_falls_on_the_reply_is_a_deadline_and_the_reply_is_kept() -> None:
    scene = Scene()

    class Late(Racing):
        async def infer(self, request: ModelRequest) -> ModelReply:
            deadline.reschedule(0)
            return say("paid for")

    agent = AgentBuilder("races").with_model(Late()).build()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as deadline:
            await scene.owner.run(agent, "Go.", session=NAME)
    assert len(await scene.events(InferenceCompleted)) == 1


async def test_cancelling_again_and_again_does_not_keep_a_run_from_pausing() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    running: asyncio.Task[object]

    async def slow(commit: Commit) -> None:
        if any(isinstance(event, ExecutionPaused) for _, event in commit.events):
            await asyncio.sleep(0.05)
        elif any(isinstance(event, InferenceCompleted) for _, event in commit.events):
            running.cancel()

    scene.store.before_append = slow
    running = asyncio.create_task(scene.owner.run(agent, "Go.", session=NAME))
    while not running.done():
        await asyncio.sleep(0)
        if running.cancelling():
            running.cancel()
    assert running.cancelled()
    assert (await scene.other.state()).status == "paused"


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_a_tool_whose_start_is_stored_while_the_caller_is_cancelled_has_not_begun_and_runs_later(
    kind: str,
) -> None:
    scene, sent = Scene(), list[str]()

    @tool(effect=ToolEffect.UNSAFE)
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    agent = AgentBuilder("races").with_model(ScriptedModel([call("send", to="ana"), "done"])).with_tools(send).build()
    flow = Workflow("letters").tool("send", send, args={"to": "{{ input.to }}"}).build()
    if kind == "agent":
        await cancelled_before(scene, ToolExecutionStarted, scene.owner.run(agent, "Go.", session=NAME))
    else:
        await cancelled_before(scene, NodeAttemptStarted, scene.owner.run(flow, {"to": "ana"}, session=NAME))
    assert sent == []
    if kind == "agent":
        result = await scene.owner.session(NAME).resume(agent)
        assert result.output == "done"
    else:
        assert (await scene.owner.flow(NAME).resume(flow)).status == "completed"
    assert sent == ["ana"]


async def test_a_start_that_was_not_stored_while_the_caller_was_cancelled_is_forgotten() -> None:
    scene, agent = Scene(), agent_of(call("look"), "done")
    work = scene.owner.run(agent, "Go.", session=NAME)
    await cancelled_before(scene, ToolExecutionStarted, work, said="One more thing.")
    assert await scene.events(ToolExecutionInterrupted) == []
    assert (await scene.owner.session(NAME).resume(agent)).output == "done"


async def test_a_cancellation_is_not_forgotten_when_the_store_has_failed_and_what_is_in_flight_tidies_up() -> None:
    scene, running_on, tidying, is_tidy = Scene(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def quick() -> str:
        """End as soon as the other one runs."""
        await running_on.wait()
        return "here"

    @tool(effect=ToolEffect.READ)
    async def tidy() -> str:
        """Tidy up, when it is cut off."""
        try:
            running_on.set()
            await asyncio.Event().wait()
        finally:
            tidying.set()
            await is_tidy.wait()
        return "never"

    async def fail() -> None:
        raise StoreUnavailable("nothing can be stored just now")

    scene.once_before(ToolExecutionCompleted, fail)
    agent = (
        AgentBuilder("races").with_model(ScriptedModel([calls(("quick", {}), ("tidy", {}))])).with_tools(quick, tidy)
    )
    running = asyncio.create_task(scene.owner.run(agent.build(), "Go.", session=NAME))
    await tidying.wait()
    running.cancel()
    await asyncio.sleep(0)
    is_tidy.set()
    await asyncio.wait({running})
    assert running.cancelled()
