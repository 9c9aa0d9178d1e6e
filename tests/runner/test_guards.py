"""A hook that raises, or forbids, stops what its phase stands before: the model call, the reply's calls, one call."""

from collections.abc import Callable

import pytest

from steptrail import AgentBuilder, HookType, ToolEffect, tool
from steptrail.continuation import ContinuationDecision
from steptrail.domain.agent.events import AgentEvent, HooksRan, StepCompleted
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.hooks import CallableHook, HookState
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, calls
from tests.runner.kit import HandClock, again_on, crash_at, dies, trail_of, vote


def raises(state: HookState) -> HookState:
    raise RuntimeError("broken")


def forbids(state: HookState) -> HookState:
    return state.with_evaluation(vote(ContinuationDecision.FORBID, "guard"))


class Scene:
    """An agent whose model asks for two payments, with one hook, and what came of it."""

    def __init__(self, when: HookType, act: Callable[[HookState], HookState], *, only_first: bool = False) -> None:
        self.paid: list[int] = []
        self.model = ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "done"])
        self._hook = (when, CallableHook(act, "guard"))
        self._only_first = only_first

    @property
    def asked(self) -> int:
        return len(self.model.requests)

    def agent(self) -> Agent:
        @tool(effect=ToolEffect.UNSAFE)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return "paid"

        builder = AgentBuilder("clerk").with_model(self.model).with_tools(pay)
        return builder.with_hook(*self._hook).build()


ENDINGS = [(raises, ("failed", "error")), (forbids, ("completed", "guard"))]
PHASES: list[tuple[HookType, int, list[int]]] = [
    (HookType.EXECUTION_START, 0, []),
    (HookType.BEFORE_STEP, 0, []),
    (HookType.BEFORE_INFERENCE, 0, []),
    (HookType.AFTER_INFERENCE, 1, []),
    (HookType.PRE_TOOL_USE, 1, []),
]


@pytest.mark.parametrize(("act", "ending"), ENDINGS)
@pytest.mark.parametrize(("when", "asked", "paid"), PHASES)
async def test_nothing_gets_past_a_hook_that_raises_or_forbids(
    when: HookType, asked: int, paid: list[int], act: Callable[[HookState], HookState], ending: tuple[str, str]
) -> None:
    scene = Scene(when, act)
    async with trail_of() as trail:
        result = await trail.run(scene.agent(), "go", session="s")
        assert (result.status, result.stop_reason) == ending
        events = [record.event for record in await trail.session("s").events()]
        # The step that was begun has its end, and the decision follows it.
        assert len([each for each in events if isinstance(each, StepCompleted)]) == result.state.step_count
        marks = [each.forbidden_by for each in events if isinstance(each, HooksRan)]
        assert marks
        assert set(marks) == {"guard"}
    assert (scene.asked, scene.paid) == (asked, paid)


@pytest.mark.parametrize("act", [raises, forbids])
async def test_the_calls_of_a_reply_that_was_not_let_through_are_closed_as_cancelled_and_say_by_whom(
    act: Callable[[HookState], HookState],
) -> None:
    scene = Scene(HookType.AFTER_INFERENCE, act)
    async with trail_of() as trail:
        result = await trail.run(scene.agent(), "go", session="s")
        (step,) = result.state.steps
        assert [call.status for call in step.tool_executions] == ["cancelled", "cancelled"]
        assert {call.text for call in step.tool_executions} == {"This call was not run: the hook guard forbade it."}
        # Every call has its answer, so that the next input finds a conversation that can be sent.
        assert [message.role for message in result.state.messages] == ["user", "assistant", "tool", "tool"]
    assert scene.paid == []


async def test_a_hook_before_one_call_forbids_that_call_and_not_its_neighbour() -> None:
    def not_the_second(state: HookState) -> HookState:
        wanted = state.current_execution.tool_call
        is_second = wanted is not None and wanted.arguments == {"cents": 2}
        return forbids(state) if is_second else state

    scene = Scene(HookType.PRE_TOOL_USE, not_the_second)
    async with trail_of() as trail:
        result = await trail.run(scene.agent(), "go", session="s")
        first, second = result.state.steps[0].tool_executions
        assert (first.status, second.status) == ("completed", "cancelled")
        assert second.text == "This call was not run: the hook guard forbade it."
    assert scene.paid == [1]


@pytest.mark.parametrize("when", [HookType.POST_TOOL_USE, HookType.AFTER_STEP])
@pytest.mark.parametrize("act", [raises, forbids])
async def test_a_hook_after_the_fact_stops_the_run_at_the_next_decision(
    when: HookType, act: Callable[[HookState], HookState]
) -> None:
    scene = Scene(when, act)
    async with trail_of() as trail:
        assert (await trail.run(scene.agent(), "go", session="s")).stop_reason in {"error", "guard"}
    assert (scene.asked, scene.paid) == (1, [1, 2])


@pytest.mark.parametrize(
    ("when", "point", "number", "last"),
    [
        (when, point, number, last)
        for when, appends in ((HookType.BEFORE_INFERENCE, 2), (HookType.AFTER_INFERENCE, 3))
        for point, last in (("after-hooks", 1), ("before-append", appends), ("after-append", appends))
        for number in range(1, last + 2)
    ],
)
async def test_a_crash_around_a_guard_lets_nothing_through_either(
    when: HookType, point: str, number: int, last: int
) -> None:
    scene = Scene(when, forbids)
    clock = HandClock()
    events: list[AgentEvent] = []
    async with trail_of(clock, crash_at(point, number)) as trail:
        with dies(number, last):
            await trail.run(scene.agent(), "go", session="s")
        if await trail.store.version("agent:s"):
            await again_on(trail, clock).session("s").resume(scene.agent())
        if await trail.store.version("agent:s"):
            events = [record.event for record in await trail.session("s").events()]
    assert scene.paid == []
    # A reply that was not stored before the crash is asked for again, as ever.
    assert scene.asked in ({0} if when is HookType.BEFORE_INFERENCE else {0, 1, 2})
    if events:
        assert events[-1].TYPE == "execution.finished.v1"


@pytest.mark.parametrize(("when", "asked"), [(HookType.BEFORE_INFERENCE, 0), (HookType.AFTER_INFERENCE, 1)])
async def test_a_pause_that_comes_in_beside_the_guard_lets_nothing_through_after_the_resume(
    when: HookType, asked: int
) -> None:
    asked_to_pause: list[bool] = []
    async with trail_of() as trail:

        async def paused_meanwhile(state: HookState) -> HookState:
            if not asked_to_pause:
                asked_to_pause.append(True)
                await again_on(trail).session("s").pause(by="ops")
            return forbids(state)

        scene = Scene(when, paused_meanwhile)  # type: ignore[arg-type]  # an async hook is one too
        result = await trail.run(scene.agent(), "go", session="s")
        if result.status is ExecutionStatus.PAUSED:
            result = await trail.session("s").resume(scene.agent())
        assert (result.status, result.stop_reason) == ("completed", "guard")
        assert (scene.asked, scene.paid) == (asked, [])
