"""Each commit that makes a session due is told to the engine, after it is stored, by whatever process stores it."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, Steptrail, tool
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import ConfigurationError, MissingExtra, StoreFull, StoreUnavailable
from steptrail.infrastructure.extras import from_fleet
from steptrail.runtime.kernel import hands, woken
from steptrail.runtime.kernel.engine import EngineStatus, Handler, Wake, WorkerReport
from steptrail.testing import ManualClock, ScriptedModel, call
from steptrail.tools import SubagentTool
from tests.runner.kit import agent_of

LATER = 20.0


class Told:
    """An engine that keeps what it is told, and wakes only what a test has it wake."""

    name = "told"

    def __init__(self) -> None:
        self.wakes: list[Wake] = []
        self.cancelled: list[str] = []
        self.farewells: list[str] = []
        self.handler: Handler | None = None
        self.fails: Exception | None = None
        self.is_closed = False

    async def open(self) -> None:
        if self.fails is not None:
            raise self.fails

    async def close(self) -> None:
        self.is_closed = True

    async def wake(self, wake: Wake) -> None:
        self.wakes.append(wake)

    async def wake_missed(self, wakes: Sequence[Wake]) -> int:
        self.wakes += wakes
        return len(wakes)

    async def cancel(self, stream: str) -> None:
        self.cancelled.append(stream)

    async def run(self, handler: Handler, *, topics: Sequence[str], concurrency: int, until: asyncio.Event) -> None:
        del topics, concurrency
        self.handler = handler
        await until.wait()

    async def report(self, report: WorkerReport | None, worker: str) -> None:
        if report is None:
            self.farewells.append(worker)

    async def status(self) -> EngineStatus:
        return EngineStatus(topics={}, workers=())

    async def come(self, stream: str) -> Wake:
        """Wait for a wake of the stream, and take it out."""
        async with asyncio.timeout(60):
            while not (found := [wake for wake in self.wakes if wake.stream == stream]):
                await asyncio.sleep(0.01)
        self.wakes.remove(found[0])
        return found[0]

    async def work(self, wake: Wake) -> None:
        async with asyncio.timeout(60):
            while self.handler is None:
                await asyncio.sleep(0.01)
            await self.handler(wake)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def paying(*replies: str) -> Agent:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    return agent_of([call("pay"), *replies]).with_tools(pay).build()


def waiting(seconds: float) -> Agent:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(seconds, max_seconds=seconds))
    built = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy)
    return built.with_limits(Limits(longest_wait=0.01, timeout=None)).build()


async def test_what_is_started_said_and_answered_is_told_and_an_answer_to_nobody_is_not(url: str) -> None:
    engine, agent = Told(), paying("Paid.", "And?")
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.start(agent, "pay", session="s")
        assert await engine.come("agent:s") == Wake(stream="agent:s", topic="agent:calc")
        asked = await trail.session("s").resume(agent)
        await asyncio.sleep(0.05)
        assert engine.wakes == []
        await trail.session("s").approve(asked.state.open_approvals[0].id, by="ana")
        assert (await engine.come("agent:s")).seconds == 0
        assert (await trail.session("s").resume(agent)).status is ExecutionStatus.COMPLETED
        await trail.session("s").post(agent, "and?")
        await engine.come("agent:s")
    assert engine.wakes == []


async def test_every_engine_that_a_worker_was_given_is_closed_with_the_trail(url: str) -> None:
    engines, agent = [Told(), Told(), Told()], agent_of(["Done."]).build()
    async with Steptrail.open(url, engine=engines[0]) as trail:
        async with trail.work(agent, engine=engines[1]), trail.work(agent, engine=engines[2]):
            await trail.start(agent, "go", session="s")
            await engines[2].come("agent:s")
        assert not any(engine.is_closed for engine in engines)
    assert all(engine.is_closed for engine in engines)


async def test_a_wait_is_told_with_its_time_and_forgotten_when_the_run_is_stopped(url: str) -> None:
    engine = Told()
    async with Steptrail.open(url, engine=engine) as trail:
        result = await trail.run(waiting(LATER), "go", session="s")
        assert result.status is ExecutionStatus.WAITING
        wake = await engine.come("agent:s")
        assert 0 < wake.seconds <= LATER
        engine.cancelled.clear()
        await trail.session("s").stop(by="ana")
    assert engine.cancelled[-1:] == ["agent:s"]
    assert engine.wakes == []


async def test_a_worker_whose_clock_is_behind_does_not_keep_the_sweep_from_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(woken, "SWEEP_SECONDS", 0.05)
    agent, engine, behind, right = waiting(3600), Told(), ManualClock(), ManualClock()
    async with Steptrail.open(url, clock=behind) as trail:
        await trail.run(agent, "go", session="s")
    right.advance(timedelta(hours=2))
    async with Steptrail.open(url, clock=behind, engine=Told()) as first, first.work(agent):
        while await first.store.is_leased("fleet:sweep") is False:
            await asyncio.sleep(0)
        async with Steptrail.open(url, clock=right, engine=engine) as second, second.work(agent):
            assert (await engine.come("agent:s")).seconds == 0


async def test_a_wait_of_hours_is_no_matter_of_the_engine_until_its_time_comes_near(url: str) -> None:
    engine = Told()
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.run(waiting(3600), "go", session="s")
        async with trail.work(waiting(3600)):
            await asyncio.sleep(0.2)
    assert engine.wakes == []


async def test_an_answer_below_wakes_the_run_at_the_top_and_one_below_a_running_one_wakes_nobody(url: str) -> None:
    engine = Told()
    below = SubagentTool(paying("Paid."), name="below")
    boss = agent_of([call("below", prompt="pay"), "All is paid."]).with_tools(below).build()
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.run(boss, "go", session="s")
        (asked,) = await trail.inbox()
        child = asked.stream.removeprefix("agent:")
        await trail.session(child).approve(asked.id, by="ana")
        assert (await engine.come("agent:s")).topic == "agent:calc"
        assert (await trail.session("s").resume(boss)).status is ExecutionStatus.COMPLETED
    assert engine.wakes == []


async def test_a_worker_that_drains_has_what_it_leaves_woken_elsewhere(url: str) -> None:
    inside, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def serve() -> str:
        """Serve."""
        inside.set()
        await gate.wait()
        return "served"

    engine, agent = Told(), agent_of([call("serve"), "Done."]).with_tools(serve).build()
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.start(agent, "go", session="s")
        wake = await engine.come("agent:s")
        async with trail.work(agent) as worker:
            working = asyncio.create_task(engine.work(wake))
            await inside.wait()
            asyncio.get_running_loop().call_later(0.1, gate.set)
        await working
        assert worker.report().running == ()
        await engine.come("agent:s")


async def test_a_wake_for_nothing_changes_nothing_and_is_counted(url: str) -> None:
    engine, agent = Told(), agent_of(["Done.", "Never."]).build()
    async with Steptrail.open(url, engine=engine) as trail, trail.work(agent) as worker:
        await trail.start(agent, "go", session="s")
        wake = await engine.come("agent:s")
        await asyncio.gather(engine.work(wake), engine.work(wake), engine.work(wake))
        await engine.work(Wake(stream="agent:nobody", topic="agent:calc"))
        assert (await trail.session("s").state()).output == "Done."
        assert (worker.report().wakes, worker.report().without_effect) == (4, 3)


async def test_a_session_of_an_agent_that_nobody_has_is_left_once_and_waits_with_the_engine(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(woken, "SWEEP_SECONDS", 0.05)
    engine, left = Told(), list[str]()
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.start(paying("Paid."), "pay", session="s")
        stranger = AgentBuilder("stranger").with_model(ScriptedModel(["Hm."])).build()
        with caplog.at_level(logging.INFO, "steptrail.runs"):
            async with trail.work(stranger, on_left=lambda row, _: left.append(row.session_id)):
                await asyncio.sleep(0.25)
    assert left == ["s"]
    assert caplog.text.count("left to a worker that has 'calc'") == 1


async def test_a_session_that_the_store_refuses_comes_again_after_a_rest(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, agent, refused = Told(), agent_of(["Done."]).build(), list[str]()

    async def full(stream: str, *given: object, **options: object) -> NoReturn:
        refused.append(stream)
        raise StoreFull("no space left")

    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 0.1)
    async with Steptrail.open(url, engine=engine) as trail, trail.work(agent):
        await trail.start(agent, "go", session="s")
        wake = await engine.come("agent:s")
        with monkeypatch.context() as patched:
            patched.setattr(trail.store, "append", full)
            await engine.work(wake)
            assert refused == ["agent:s"]
        again = engine.wakes[-1]
        assert (again.stream, 0 < again.seconds <= 0.1) == ("agent:s", True)
        await asyncio.sleep(again.seconds)  # as an engine does
        await engine.work(again)
        assert (await trail.session("s").state()).status is ExecutionStatus.COMPLETED


@pytest.mark.acceptance("9.2-7")
async def test_an_engine_that_is_away_disturbs_no_run_and_is_said_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine, agent = Told(), agent_of(["Done."] * 3).build()
    engine.fails = StoreUnavailable("the engine is away")
    async with Steptrail.open(url, engine=engine) as trail:
        for name in ("a", "b", "c"):
            await trail.start(agent, "go", session=name)
        await asyncio.sleep(0.1)
        assert (await trail.session("a").resume(agent)).status is ExecutionStatus.COMPLETED
        with pytest.raises(StoreUnavailable, match="is away"):
            async with trail.work(agent):
                pass
        assert caplog.text.count("the engine was not told") == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("celery", "'?celery'? is not understood"),
        ("procrastinate+sqlite:///x.db", "not understood: give procrastinate"),
        ("procrastinate", "needs PostgreSQL, and the store is"),
        ("procrastinate+postgresql://u:secret@host:1/db@x", "address is not understood"),
    ],
)
async def test_an_engine_that_cannot_be_is_refused_in_a_line_without_secrets(url: str, name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        Steptrail.open(url, engine=name)
    assert "secret" not in str(refused.value)


async def test_without_its_packages_an_engine_names_the_extra(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(module)

    monkeypatch.setattr("importlib.import_module", missing)
    from_fleet.cache_clear()
    with pytest.raises(MissingExtra, match="fleet"):
        Steptrail.open(url, engine="procrastinate+postgresql://localhost/x")
    from_fleet.cache_clear()


async def test_a_worker_that_is_cancelled_while_it_cuts_off_ends_with_the_engine_too(url: str) -> None:
    inside, tidying, is_tidy = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def serve() -> str:
        """Serve."""
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            tidying.set()
            await is_tidy.wait()
        return "served"

    engine, agent = Told(), agent_of([call("serve"), "Done."]).with_tools(serve).build()
    async with Steptrail.open(url, engine=engine) as trail:
        await trail.start(agent, "go", session="s")
        working = asyncio.create_task(engine.work(await engine.come("agent:s")))

        async def work() -> None:
            async with trail.work(agent, grace=0.0):
                await inside.wait()

        worker = asyncio.create_task(work())
        await tidying.wait()
        worker.cancel()
        await asyncio.sleep(0)
        is_tidy.set()
        await asyncio.wait({worker, working})
        assert worker.cancelled()
        assert len(engine.farewells) == 1
