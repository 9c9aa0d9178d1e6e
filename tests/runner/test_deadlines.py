"""What is left of the run's time is the deadline of each call, and reaching it is the limit's stop, not an error."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from steptrail import AgentBuilder, HookType, Limits, OnUnknown, ToolContext, ToolEffect, tool
from steptrail.domain.agent.events import (
    AgentEvent,
    InferenceInterrupted,
    ToolCallCancelled,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import CutBy
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from tests.runner.kit import NOON, Crash, HandClock, Run, again_on, agent_of, crash_at, hook, run, slowly, trail_of

SHORT = 0.03
"""Seconds; what is measured against it takes for ever."""

pytestmark = pytest.mark.usefixtures("impatient")


class Stopwatch(SystemClock):
    """The clocks of this computer from `begin` on: what comes before uses up no time of the run, however slow it is."""

    def __init__(self) -> None:
        self._since: int | None = None

    def begin(self) -> None:
        self._since = self._since or super().monotonic()

    def monotonic(self) -> int:
        return 0 if self._since is None else super().monotonic() - self._since

    def utc(self) -> int:
        return NOON + self.monotonic()


async def in_real_time(builder: AgentBuilder, clock: Clock, reach: Reach = no_faults) -> Run:
    env = Environment(store=open_store("sqlite:///:memory:"), clock=clock, reach=reach)
    async with Steptrail(env) as trail:
        result = await trail.run(builder.build(), "go", session="s")
        session = trail.session("s")
        return Run(result, await session.events(), await session.why())


async def test_each_call_is_told_what_is_left() -> None:
    clock = HandClock()
    left: list[float | None] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look at the clock."""
        left.append(context.deadline_seconds)
        clock.advance(1)
        return "ok"

    model = ScriptedModel([slowly(clock, 4, calls(("look", {}), ("look", {}))), "done"])
    await run(AgentBuilder("x").with_model(model).with_tools(look).with_timeout(10).build(), clock=clock)
    assert [request.timeout for request in model.requests] == [10.0, 4.0]
    assert left == [6.0, 5.0]


async def test_the_shorter_of_both_limits_and_of_the_tools_own_timeout_counts() -> None:
    left: list[float | None] = []

    @tool(timeout=7)
    def patient(context: ToolContext) -> str:
        """Look at the clock."""
        left.append(context.deadline_seconds)
        return "ok"

    for wall, active in [(100, 5), (5, 100), (100, 100), (None, None)]:
        model = ScriptedModel([call("patient"), "done"])
        builder = AgentBuilder("x").with_model(model).with_tools(patient)
        await run(builder.with_timeout(wall).with_cumulative_timeout(active).build())
    assert left == [5.0, 5.0, 7.0, 7.0]


async def test_what_is_left_of_the_active_time_shrinks_with_every_step_and_not_while_it_rests() -> None:
    clock = HandClock()
    left: list[float | None] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look at the clock, for five seconds."""
        left.append(context.deadline_seconds)
        clock.advance(5)
        return "ok"

    asking = slowly(clock, 10, call("look"))
    model = ScriptedModel([asking, asking, asking, "done"])
    agent = AgentBuilder("x").with_model(model).with_tools(look).with_cumulative_timeout(60)
    ran = await run(agent.build(), clock=clock)
    assert ran.ending == ("completed", "completed")
    assert [request.timeout for request in model.requests] == [60.0, 45.0, 30.0, 15.0]
    assert left == [50.0, 35.0, 20.0]


async def test_a_segment_that_follows_a_rest_has_what_was_left_before_it() -> None:
    clock = HandClock()

    @tool(approval=True)
    def pay() -> str:
        """Wait for a person."""
        return "paid"

    model = ScriptedModel([slowly(clock, 10, call("pay")), "done"])
    agent = AgentBuilder("x").with_model(model).with_tools(pay).with_cumulative_timeout(60).build()
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        clock.advance(3600)
        session = trail.session("s")
        (asked,) = (await session.state()).open_approvals
        await session.approve(asked.id, by="ana")
        await session.resume(agent)
    assert [request.timeout for request in model.requests] == [60.0, 50.0]


async def test_a_model_call_that_the_runs_limit_cuts_ends_the_run_by_that_limit() -> None:
    clock = HandClock()

    def cut(request: object) -> str:
        clock.advance(10)
        raise TimeoutError("the driver kept to the deadline")

    ran = await run(agent_of([cut, "done"]).with_timeout(10).build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    cut_off = ran.one(InferenceInterrupted)
    assert (cut_off.reason, cut_off.cut_by, cut_off.deadline) == ("deadline", CutBy.TIMEOUT, NOON + 10_000_000)
    assert "inference.failed" not in ran.types


async def test_a_model_call_that_times_out_before_that_is_an_error() -> None:
    clock = HandClock()

    def cut(request: object) -> str:
        clock.advance(3)
        raise TimeoutError("the provider gave up")

    ran = await run(agent_of([cut]).with_timeout(10).build(), clock=clock)
    assert ran.ending == ("failed", "error")
    assert ran.result.state.steps[0].errors[0].error.type == "timeout"


async def test_a_driver_that_ignores_the_deadline_is_cut_off_all_the_same() -> None:
    clock, model = Stopwatch(), ScriptedModel([say("for ever")], delay=3600.0)

    def reach(point: str) -> None:
        if point == "before-inference":
            clock.begin()

    ran = await in_real_time(AgentBuilder("x").with_model(model).with_timeout(SHORT), clock, reach)
    assert ran.ending == ("completed", "time_limit")
    assert ran.one(InferenceInterrupted).reason == "deadline"


class Deaf:
    """A driver that takes no notice of being cancelled, until it is let go."""

    def __init__(self, on_call: Callable[[], None]) -> None:
        self.called, self.released, self._on_call = asyncio.Event(), asyncio.Event(), on_call

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="deaf", model="deaf")

    async def infer(self, request: ModelRequest) -> ModelReply:
        self._on_call()
        self.called.set()
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await self.released.wait()
        return say("too late")

    async def close(self) -> None:
        return


@pytest.mark.parametrize(
    ("how", "reason", "ending"),
    [
        ("deadline", "deadline", ("completed", "time_limit")),
        ("stop", "stop", ("completed", "user_requested")),
        ("cancel", "cancelled", ("paused", None)),
    ],
)
async def test_a_driver_that_does_not_let_itself_be_cancelled_holds_nobody_up(
    how: str, reason: str, ending: tuple[str, str | None]
) -> None:
    clock = Stopwatch()
    model = Deaf(clock.begin)
    limits = Limits(stop_grace=0, timeout=SHORT if how == "deadline" else None)
    agent = AgentBuilder("x").with_model(model).with_limits(limits).build()
    async with Steptrail(Environment(store=open_store("sqlite:///:memory:"), clock=clock)) as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await model.called.wait()
        if how == "stop":
            await trail.session("s").stop(by="ops")
        elif how == "cancel":
            running.cancel()
        await asyncio.wait({running})
        session = trail.session("s")
        state = await session.state()
        assert (state.status, state.stop_reason) == ending
        cut = [each.event for each in await session.events() if isinstance(each.event, InferenceInterrupted)]
        assert [event.reason for event in cut] == [reason]
        # What it says in the end goes nowhere.
        model.released.set()
        await asyncio.sleep(0)
        assert (await session.state()).version == state.version


@pytest.mark.parametrize(
    ("how", "reason", "ending"),
    [
        ("timeout", "deadline", ("completed", "completed")),
        ("deadline", "deadline", ("completed", "time_limit")),
        ("stop", "stop", ("completed", "user_requested")),
        ("cancel", "cancelled", ("paused", None)),
    ],
)
@pytest.mark.parametrize("in_the_end", ["hangs", "returns"])
async def test_a_tool_that_does_not_let_itself_be_cancelled_holds_nobody_up(
    how: str, reason: str, ending: tuple[str, str | None], in_the_end: str
) -> None:
    clock, called, released = Stopwatch(), asyncio.Event(), asyncio.Event()

    @tool(timeout=SHORT if how == "timeout" else None)
    async def deaf() -> str:
        """Take no notice of being cancelled."""
        clock.begin()
        called.set()
        with suppress(asyncio.CancelledError):
            await released.wait()
        while in_the_end == "hangs" and not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return "too late"

    limits = Limits(stop_grace=0, timeout=SHORT if how == "deadline" else None)
    model = ScriptedModel([call("deaf"), "done"])
    agent = AgentBuilder("x").with_model(model).with_tools(deaf).with_limits(limits).build()
    async with Steptrail(Environment(store=open_store("sqlite:///:memory:"), clock=clock)) as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await called.wait()
        session = trail.session("s")
        if how == "stop":
            await session.stop(by="ops")
        elif how == "cancel":
            running.cancel()
        await asyncio.wait({running})
        state = await session.state()
        assert (state.status, state.stop_reason) == ending
        cut = [each.event for each in await session.events() if isinstance(each.event, ToolExecutionInterrupted)]
        assert [event.reason for event in cut] == [reason]
        # What it says in the end goes nowhere.
        released.set()
        await asyncio.sleep(0)
        assert (await session.state()).version == state.version


async def test_a_call_that_a_stop_has_cut_off_says_so_when_its_caller_is_cancelled_before_it_has_ended() -> None:
    called, cut_off, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def slow_to_end() -> str:
        """Take some time to end when it is cancelled."""
        called.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()
            with suppress(asyncio.CancelledError):
                await released.wait()
        return "never"

    model = ScriptedModel([call("slow_to_end"), "done"])
    builder = AgentBuilder("x").with_model(model).with_tools(slow_to_end).with_limits(Limits(stop_grace=0))
    async with Steptrail.open("sqlite:///:memory:") as trail:
        running = asyncio.create_task(trail.run(builder.build(), "go", session="s"))
        await called.wait()
        await trail.session("s").stop(by="ops")
        await cut_off.wait()
        running.cancel()
        await asyncio.sleep(0)
        released.set()
        await asyncio.wait({running})
        events = [each.event for each in await trail.session("s").events()]
        assert [each.reason for each in events if isinstance(each, ToolExecutionInterrupted)] == ["stop"]


async def test_a_tool_that_cancels_its_own_task_has_failed() -> None:
    @tool
    async def give_up() -> None:
        """Give up."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(30)

    ran = await run(agent_of([call("give_up"), "done"]).with_tools(give_up).build())
    assert ran.ending == ("failed", "error")
    assert ran.one(ToolExecutionFailed).error.message == "the effect cancelled itself, and nobody had asked it to"


async def test_a_model_is_not_called_when_no_time_is_left() -> None:
    clock = HandClock()
    model = ScriptedModel(["done"])

    def linger(records: Sequence[Recorded[AgentEvent]]) -> None:
        if any(record.event.TYPE == "inference.started.v1" for record in records):
            clock.advance(10)

    ran = await run(agent_of([]).with_model(model).with_timeout(10).build(), clock=clock, on_commit=linger)
    assert model.requests == []
    assert ran.ending == ("completed", "time_limit")


@pytest.mark.parametrize("effect", list(ToolEffect))
async def test_a_tool_that_the_runs_limit_cuts_ends_the_run_by_that_limit(effect: ToolEffect) -> None:
    clock = Stopwatch()

    @tool(effect=effect, on_unknown=OnUnknown.FAIL)
    async def endless() -> None:
        """Never return."""
        clock.begin()
        await asyncio.Event().wait()

    model = ScriptedModel([call("endless"), "done"])
    ran = await in_real_time(AgentBuilder("x").with_model(model).with_tools(endless).with_timeout(SHORT), clock)
    assert ran.ending == ("completed", "time_limit")
    cut = ran.one(ToolExecutionInterrupted)
    assert (cut.reason, cut.cut_by) == ("deadline", CutBy.TIMEOUT)


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        (ToolEffect.READ, ToolExecutionFailed),
        (ToolEffect.IDEMPOTENT, ToolExecutionFailed),
        (ToolEffect.KEYED, ToolExecutionInterrupted),
        (ToolEffect.UNSAFE, ToolExecutionInterrupted),
    ],
)
async def test_a_tools_own_timeout_fails_what_may_run_twice_and_leaves_the_rest_unknown(
    effect: ToolEffect, kind: type[AgentEvent]
) -> None:
    @tool(effect=effect, timeout=SHORT)
    async def endless() -> None:
        """Never return."""
        await asyncio.Event().wait()

    model = ScriptedModel([call("endless"), "done"])
    ran = await in_real_time(AgentBuilder("x").with_model(model).with_tools(endless), SystemClock())
    (ended,) = ran.all(kind)
    if isinstance(ended, ToolExecutionFailed):
        assert (ended.error.type, ended.cut_by) == ("timeout", CutBy.TOOL_TIMEOUT)
        assert ran.ending == ("failed", "error")
    else:
        assert isinstance(ended, ToolExecutionInterrupted)
        assert (ended.reason, ended.cut_by, ended.deadline) == ("deadline", CutBy.TOOL_TIMEOUT, None)
        # Unknown is not failed: the model is told and goes on.
        assert ran.ending == ("completed", "completed")
        assert ran.shown[0].startswith("The outcome of this call is unknown")


async def test_an_unknown_outcome_may_be_declared_a_failure() -> None:
    @tool(timeout=SHORT, on_unknown=OnUnknown.FAIL)
    async def endless() -> None:
        """Never return."""
        await asyncio.Event().wait()

    ran = await in_real_time(
        AgentBuilder("x").with_model(ScriptedModel([call("endless")])).with_tools(endless), SystemClock()
    )
    assert ran.ending == ("failed", "error")
    assert ran.shown == ["Error in tool call: the outcome of endless is unknown: it was cut off while it was running"]


async def test_a_call_for_which_no_time_is_left_is_not_started_and_not_in_doubt() -> None:
    clock = HandClock()

    @tool
    def slow() -> str:
        """Take twenty seconds."""
        clock.advance(20)
        return "ok"

    model = ScriptedModel([calls(("slow", {}), ("slow", {}), ("slow", {})), "done"])
    ran = await run(AgentBuilder("x").with_model(model).with_tools(slow).with_timeout(10).build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    assert [started.position for started in ran.all(ToolExecutionStarted)] == [0]
    cancelled = [(each.position, each.cut_by) for each in ran.all(ToolCallCancelled)]
    assert cancelled == [(1, CutBy.TIMEOUT), (2, CutBy.TIMEOUT)]
    assert ran.shown == ["ok", *["This call was not run: the run's time is up."] * 2]


async def test_a_run_that_dies_after_its_deadline_answers_when_it_is_resumed() -> None:
    """The resumed stretch has its own wall clock, and the question is still open."""
    clock = HandClock()

    def cut(request: object) -> str:
        clock.advance(10)
        raise TimeoutError

    script: list[Reply] = [cut, "the answer"]
    agent = agent_of(script, (HookType.AFTER_STEP, hook("a", lambda s: None))).with_timeout(10).build()
    async with trail_of(clock, crash_at("before-hooks")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        # The interrupted call is no reply: the script goes on where the model would.
        result = await again_on(trail, clock).session("s").resume(agent_of([say("the answer")]).build())
    assert (result.status, result.stop_reason, result.output) == ("completed", "completed", "the answer")


@pytest.mark.parametrize("off", [-0.02, -1e-6, 0.0, 1e-6, 0.02])
@pytest.mark.parametrize("effect", [ToolEffect.READ, ToolEffect.UNSAFE])
async def test_a_tool_whose_own_timeout_ends_with_the_runs_time_is_cut_by_the_run(
    off: float, effect: ToolEffect
) -> None:
    clock = HandClock()

    @tool(effect=effect, timeout=5)
    async def patient(context: ToolContext) -> None:
        """Keep the deadline."""
        clock.advance(context.deadline_seconds or 0.0)
        raise TimeoutError

    model = ScriptedModel([slowly(clock, 1 + off, call("patient")), "done"])
    ran = await run(AgentBuilder("x").with_model(model).with_tools(patient).with_timeout(6).build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    cut = ran.one(ToolExecutionInterrupted)
    assert (cut.cut_by, cut.deadline) == (CutBy.TIMEOUT, NOON + 6_000_000)


async def test_a_tool_whose_own_timeout_ends_before_that_is_cut_by_its_own() -> None:
    clock = HandClock()

    @tool(effect=ToolEffect.READ, timeout=5)
    async def patient(context: ToolContext) -> None:
        """Keep the deadline."""
        clock.advance(context.deadline_seconds or 0.0)
        raise TimeoutError

    model = ScriptedModel([slowly(clock, 0.9, call("patient"))])
    ran = await run(AgentBuilder("x").with_model(model).with_tools(patient).with_timeout(6).build(), clock=clock)
    assert ran.ending == ("failed", "error")
    assert ran.one(ToolExecutionFailed).cut_by is CutBy.TOOL_TIMEOUT


async def test_what_follows_a_tool_that_gave_up_early_is_not_started_and_nobody_is_asked_again() -> None:
    clock = HandClock()
    early = {0: 0.03, 1: 0.02}

    @tool(effect=ToolEffect.READ)
    async def watch(place: int, context: ToolContext) -> None:
        """Keep the deadline, and wake up early."""
        clock.advance(max(0.0, (NOON + (10 - early[place]) * 1e6 - clock.utc()) / 1e6))
        raise TimeoutError

    @tool
    def pay() -> str:
        """Pay."""
        raise AssertionError("there is no time left")

    model = ScriptedModel([calls(("watch", {"place": 0}), ("watch", {"place": 1}), ("pay", {})), "done"])
    builder = AgentBuilder("x").with_model(model).with_tools(watch, pay).with_timeout(10)
    ran = await run(builder.build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    assert [cut.deadline for cut in ran.all(ToolExecutionInterrupted)] == [NOON + 10_000_000] * 2
    assert [each.position for each in ran.all(ToolCallCancelled)] == [2]
    assert len(model.requests) == 1
    assert ran.why.decided_by is not None
    assert ran.why.decided_by.context == {"elapsedSeconds": 10.0, "maxSeconds": 10.0}
