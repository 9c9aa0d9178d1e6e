"""An append that loses against somebody's message: what has happened is appended again, what was meant is asked anew.

Each kind of event, in a real run: the message comes while the event waits to be stored.
"""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType, Message, OnUnknown, Steptrail, ToolEffect, tool
from steptrail.continuation import ContinuationDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    InferenceCompleted,
    InferenceRequestAmended,
    MessagesAppended,
    MetadataChanged,
    StepStarted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
    UsageRecorded,
    WaitStarted,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.kernel.event import Event
from steptrail.domain.shared.run import CutBy
from steptrail.domain.usage import Usage
from steptrail.hooks import CallableHook, HookState
from steptrail.testing import Reply, ScriptedModel, call, say
from tests.runner.kit import again_on, trail_of, vote

Change = Callable[[HookState], HookState]
Hooked = tuple[HookType, Change]


class Scene:
    """A run of an agent that pays, beside somebody who says something at a chosen moment."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.requests = 0
        self.trail: Steptrail | None = None
        self.agent: Agent | None = None
        self.said = False

    async def say_something(self) -> None:
        assert self.trail is not None
        assert self.agent is not None
        if not self.said:
            self.said = True
            await again_on(self.trail).session("s").send(self.agent, Message.user("and be quick"))

    async def run(self, script: Sequence[Reply], *hooks: Hooked) -> list[AgentEvent]:
        @tool(effect=ToolEffect.UNSAFE)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return "paid"

        builder = AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(pay)
        for hook_type, change in hooks:
            builder.with_hook(hook_type, self._overtaken(change))
        self.agent = builder.build()
        async with trail_of() as self.trail:
            await self.trail.run(self.agent, "go", session="s")
            return [record.event for record in await self.trail.session("s").events()]

    def _overtaken(self, change: Change) -> CallableHook:
        async def handle(state: HookState) -> HookState:
            first = state.step_count == (state.hook_type is HookType.AFTER_STEP)
            await self.say_something()
            return change(state) if first else state

        return CallableHook(handle, "h")


def of(kind: type[Event], events: Sequence[AgentEvent]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_held_call_whose_hold_was_overtaken_waits_for_a_person_and_does_not_run() -> None:
    scene = Scene()
    held: Hooked = (HookType.PRE_TOOL_USE, lambda state: state.with_held_tool_call("who pays?"))
    events = await scene.run([call("pay", cents=100), "done"], held)
    assert scene.said
    assert scene.paid == []
    assert len(of(ToolCallHeld, events)) == 1
    assert [event.TYPE for event in events[-2:]] == ["approval.requested.v1", "wait.started.v1"]


AT_A_CALL: list[tuple[type[Event], HookType, Change, list[int]]] = [
    (ToolCallBlocked, HookType.PRE_TOOL_USE, lambda s: s.with_blocked_tool_call("no"), []),
    (ToolCallAmended, HookType.PRE_TOOL_USE, lambda s: s.with_tool_arguments({"cents": 1}), [1]),
    (MetadataChanged, HookType.PRE_TOOL_USE, lambda s: s.with_metadata("seen", True), [100]),
    (UsageRecorded, HookType.AFTER_INFERENCE, lambda s: s.with_usage(Usage(input=7)), [100]),
    (InferenceRequestAmended, HookType.BEFORE_INFERENCE, lambda s: s.with_request(tool_choice="required"), [100]),
    (HooksRan, HookType.AFTER_INFERENCE, lambda s: s, [100]),
    (
        EvaluationsRecorded,
        HookType.AFTER_STEP,
        lambda s: s.with_evaluation(vote(ContinuationDecision.FORBID)),
        [100],
    ),
    (MessagesAppended, HookType.PRE_TOOL_USE, lambda s: s.with_messages(Message.user("from the hook")), [100]),
]


@pytest.mark.parametrize(("kind", "when", "change", "paid"), AT_A_CALL, ids=lambda each: getattr(each, "__name__", ""))
async def test_what_a_hook_did_is_kept_once_when_a_message_overtakes_it(
    kind: type[Event], when: HookType, change: Change, paid: list[int]
) -> None:
    scene = Scene()
    events = await scene.run([call("pay", cents=100), "done", "done"], (when, change))
    by_the_hook = [
        event
        for event in of(kind, events)
        if getattr(event, "hook", getattr(event, "by", "h")) == "h" and getattr(event, "step", 1) < 2
    ]
    assert len(by_the_hook) == 1
    assert scene.paid == paid


class Slow(ScriptedModel):
    """A model during whose first call somebody says something."""

    def __init__(self, script: Sequence[Reply], scene: Scene) -> None:
        super().__init__(script)
        self._scene = scene

    async def infer(self, request: ModelRequest) -> ModelReply:
        self._scene.requests += 1
        await self._scene.say_something()
        return await super().infer(request)


@pytest.mark.parametrize("cents", [100, 1])
async def test_what_the_world_did_is_kept_once_when_a_message_overtakes_it(cents: int) -> None:
    scene = Scene()

    @tool(effect=ToolEffect.UNSAFE)
    async def pay(cents: int) -> str:
        """Pay."""
        scene.paid.append(cents)
        scene.said = False
        await scene.say_something()
        if cents > 1:
            return "paid"
        raise RuntimeError("too little")

    model = Slow([call("pay", cents=cents), "done"], scene)
    builder = AgentBuilder("clerk").with_model(model).with_tools(pay)
    scene.agent = builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).build()
    async with trail_of() as scene.trail:
        await scene.trail.run(scene.agent, "go", session="s")
        events = [record.event for record in await scene.trail.session("s").events()]
    assert (scene.requests, scene.paid) == (2, [cents])
    assert len(of(InferenceCompleted, events)) == 2
    assert len(of(ToolExecutionCompleted, events)) == (cents > 1)
    assert len(of(ToolExecutionFailed, events)) == (cents == 1)


async def test_a_start_that_was_overtaken_is_asked_for_anew_and_stands_in_the_log_once() -> None:
    scene = Scene()
    # The start of the call rides on the commit of what the hook did, so both are overtaken.
    events = await scene.run([call("pay", cents=100), "done"], (HookType.PRE_TOOL_USE, lambda s: s))
    assert scene.said
    assert len(of(ToolExecutionStarted, events)) == 1
    assert scene.paid == [100]


async def test_a_decision_that_was_overtaken_is_taken_anew_with_the_step_that_followed_it() -> None:
    scene = Scene()
    change: Hooked = (HookType.BEFORE_INFERENCE, lambda s: s.with_metadata("asked", True))
    events = await scene.run([say("done"), say("done again")], change)
    # Decision, step and the hook's phase were one commit to come: none of them is there twice.
    assert [event.step for event in events if isinstance(event, ContinuationEvaluated)].count(0) == 1
    assert [event.number for event in events if isinstance(event, StepStarted)].count(1) == 1


async def test_a_call_that_a_hook_forbade_does_not_run_when_a_message_overtakes_it() -> None:
    scene = Scene()
    no: Hooked = (HookType.PRE_TOOL_USE, lambda state: state.with_evaluation(vote(ContinuationDecision.FORBID)))
    events = await scene.run([call("pay", cents=100), "done"], no)
    assert scene.said
    assert scene.paid == []
    assert len(of(HooksRan, events)) == 1


async def test_what_follows_from_an_interruption_is_decided_anew_when_a_stop_overtakes_it() -> None:
    trail = trail_of()

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK, timeout=0.05)
    async def pay() -> str:
        """Pay, and never hear of it."""
        try:
            await asyncio.sleep(60)
        finally:
            # The time is up: the run holds that the call is parked, and has not stored it yet.
            await again_on(trail).session("s").stop(by="ana")
        return "paid"

    agent = AgentBuilder("clerk").with_model(ScriptedModel([call("pay"), "done"])).with_tools(pay).build()
    async with trail:
        result = await trail.run(agent, "go", session="s")
        events = [record.event for record in await trail.session("s").events()]
    (cut,) = [event for event in events if isinstance(event, ToolExecutionInterrupted)]
    assert (cut.cut_by, cut.then) == (CutBy.TOOL_TIMEOUT, Then.TELL)
    assert of(WaitStarted, events) == []
    assert result.stop_reason == "user_requested"
