"""What counts as work and what does not, by a clock that moves only when something is said to take time."""

from collections.abc import Callable

import pytest

from steptrail.domain.agent.commands import Send
from steptrail.domain.agent.events import ToolExecutionCompleted, ToolExecutionStarted
from steptrail.domain.agent.ids import SessionId
from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.kernel.commands import Pause
from steptrail.domain.kernel.record import Commit
from steptrail.domain.messages import Message
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.execution_time import project_execution_time
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.scripted_model import Reply, ScriptedModel, calls
from tests.processes.agents.interposed import Interposed
from tests.processes.scene import append_alone

HOUR, WEEK = 3600.0, 604_800.0
NAME = "s1"


class FakeClock:
    """Both clocks of a machine, moved by hand. A new process starts its monotonic clock anywhere."""

    def __init__(self) -> None:
        self._now = 1_800_000_000_000_000

    def utc(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._now - 42

    def pass_by(self, seconds: float) -> None:
        self._now += round(seconds * 1e6)


class Scene:
    """A store, a clock, and a model and tools that take as long as they say."""

    def __init__(self) -> None:
        self.clock, self.store = FakeClock(), Interposed()
        self.environment = Environment(store=self.store, clock=self.clock)
        self.trail = Steptrail(self.environment)
        self.session = self.trail.session(NAME)
        self.control = SessionControl(self.environment, SessionId(NAME))

    def takes(self, seconds: float, reply: str | ModelReply) -> Callable[[ModelRequest], str | ModelReply]:
        def answer(request: ModelRequest) -> str | ModelReply:
            del request
            self.clock.pass_by(seconds)
            return reply

        return answer

    async def crash_before(self, position: int, agent: Agent) -> None:
        """Run until the result of that call is to be stored, and die."""

        async def die(commit: Commit) -> None:
            for _, event in commit.events:
                if isinstance(event, ToolExecutionCompleted) and event.position == position:
                    self.store.before_append = survive
                    raise StoreUnavailable("the process is gone")

        self.store.before_append = die
        with pytest.raises(StoreUnavailable):
            await self.trail.run(agent, "Go.", session=NAME)

    async def active_seconds(self) -> float:
        state = await self.session.state()
        projected = project_execution_time(await self.session.events())
        assert sum(each.cumulative_seconds for each in projected.values()) == pytest.approx(
            state.cumulative_execution_seconds
        )
        return state.cumulative_execution_seconds


async def survive(commit: Commit) -> None:
    del commit


def agent_of(*script: Reply, tools: tuple[Callable[[], object], ...] = ()) -> AgentBuilder:
    builder = AgentBuilder("clocks").with_model(ScriptedModel(script))
    return builder.with_tools(*(tool(effect=ToolEffect.READ, concurrent=False)(each) for each in tools))


@pytest.mark.parametrize("in_the_middle_of_a_step", [True, False])
async def test_five_seconds_of_work_an_hour_of_pause_and_three_seconds_of_work_are_eight(
    in_the_middle_of_a_step: bool,
) -> None:
    scene = Scene()

    async def pause() -> str:
        await scene.control.stream.request(Pause(by="ops"))
        return "asked for a pause"

    def rest() -> str:
        return "rested"

    wanted = calls(("pause", {}), ("rest", {})) if in_the_middle_of_a_step else calls(("pause", {}))
    agent = agent_of(scene.takes(5, wanted), scene.takes(3, "done"), tools=(pause, rest)).build()
    paused = await scene.trail.run(agent, "Go.", session=NAME)
    assert (paused.status.value, paused.state.open_step) == ("paused", 1 if in_the_middle_of_a_step else None)
    scene.clock.pass_by(HOUR)
    assert (await scene.session.state()).cumulative_execution_seconds == pytest.approx(5)
    resumed = await scene.session.resume(agent)
    assert resumed.output == "done"
    assert await scene.active_seconds() == pytest.approx(8)


async def test_a_week_between_two_messages_does_not_time_out() -> None:
    scene = Scene()
    agent = agent_of("done", "done again").with_timeout(300).with_cumulative_timeout(300).build()
    await scene.trail.run(agent, "Go.", session=NAME)
    scene.clock.pass_by(WEEK)
    second = await scene.session.send(agent, "And now?")
    assert (second.status.value, second.stop_reason, second.output) == ("completed", "completed", "done again")


async def test_a_pause_of_a_week_does_not_time_out() -> None:
    scene = Scene()

    async def pause() -> str:
        await scene.control.stream.request(Pause(by="ops"))
        return "asked for a pause"

    builder = agent_of(calls(("pause", {})), "done", tools=(pause,))
    agent = builder.with_timeout(300).with_cumulative_timeout(300).build()
    await scene.trail.run(agent, "Go.", session=NAME)
    scene.clock.pass_by(WEEK)
    assert (await scene.session.resume(agent)).output == "done"


@pytest.mark.parametrize("somebody_writes_meanwhile", [False, True])
async def test_a_step_that_is_cut_by_a_crash_counts_up_to_its_last_event(somebody_writes_meanwhile: bool) -> None:
    scene = Scene()
    durations = iter([100.0, 1.0])

    def first() -> str:
        scene.clock.pass_by(2)
        return "first"

    def second() -> str:
        scene.clock.pass_by(next(durations))
        return "second"

    script: list[Reply] = [scene.takes(5, calls(("first", {}), ("second", {}))), scene.takes(2, "done"), "and that"]
    agent = agent_of(*script, tools=(first, second)).with_timeout(None).build()
    await scene.crash_before(1, agent)
    scene.clock.pass_by(HOUR)
    if somebody_writes_meanwhile:  # a message is no sign of life of the process that died
        await append_alone(scene.control, Send(messages=(Message.user("Still there?"),)))
        scene.clock.pass_by(HOUR)
    await scene.session.resume(agent)
    started = [r.event for r in await scene.session.events() if isinstance(r.event, ToolExecutionStarted)]
    assert [event.attempt for event in started] == [1, 1, 2]
    assert await scene.active_seconds() == pytest.approx(5 + 2 + 1 + 2)


async def test_waiting_for_a_person_is_not_work() -> None:
    scene = Scene()

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([scene.takes(5, calls(("pay", {}))), scene.takes(3, "done")])
    agent = AgentBuilder("clocks").with_model(model).with_tools(pay).build()
    await scene.crash_before(0, agent)
    scene.clock.pass_by(HOUR)
    parked = await scene.session.resume(agent)
    scene.clock.pass_by(HOUR)
    assert (parked.status.value, (await scene.session.state()).tool_executions[0].phase.value) == ("waiting", "parked")
    effect = parked.state.tool_executions[0].effect_id or ""
    await scene.session.settle(effect, "completed", by="ana", result="paid")
    scene.clock.pass_by(HOUR)
    assert (await scene.session.resume(agent)).output == "done"
    assert await scene.active_seconds() == pytest.approx(8)


async def test_a_clock_that_was_set_back_between_two_segments_takes_no_time_away() -> None:
    scene = Scene()

    async def pause() -> str:
        await scene.control.stream.request(Pause(by="ops"))
        return "asked for a pause"

    agent = agent_of(scene.takes(5, calls(("pause", {}))), scene.takes(3, "done"), tools=(pause,)).build()
    await scene.trail.run(agent, "Go.", session=NAME)
    scene.clock.pass_by(-HOUR)
    await scene.session.resume(agent)
    instants = [record.at for record in await scene.session.events()]
    assert instants == sorted(instants)
    assert await scene.active_seconds() == pytest.approx(8)
