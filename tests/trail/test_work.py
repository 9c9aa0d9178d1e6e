"""A worker carries on what is due, whatever left it there, and leaves it to others when it ends."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.errors import ConfigurationError
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.worker import Work, Worker
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool
from steptrail.workflow import FlowTool, Workflow
from tests.runner.kit import Crash, agent_of, crash_at

PATIENCE = 30.0


class Desk:
    """An agent whose one tool notes each call, and what it is at now; it waits at its gate."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.inside, self.most = 0, 0
        self.gate = asyncio.Event()
        self.gate.set()

        @tool(effect=ToolEffect.IDEMPOTENT)
        async def serve(context: ToolContext) -> str:
            """Serve somebody."""
            self.ran[context.effect_id] += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await asyncio.sleep(0.01)
                await self.gate.wait()
            finally:
                self.inside -= 1
            return "served"

        @tool(approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        self._tools = serve, pay

    def agent(self, *, name: str = "calc", first: str = "serve") -> Agent:
        built = agent_of([call(first), "Done."]).with_tools(*self._tools).build()
        assert built.name == name
        return built


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def left_by_a_crash(url: str, agent: Agent, *sessions: str) -> None:
    for session in sessions:
        async with Steptrail(Environment(store=open_store(url), reach=crash_at("before-inference"))) as dying:
            with pytest.raises(Crash):
                await dying.run(agent, "go", session=session)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.01)


async def ended(trail: Steptrail, *sessions: str) -> None:
    """Wait until these sessions have completed."""
    async with asyncio.timeout(PATIENCE):
        for session in sessions:
            while (await trail.session(session).state()).status is not ExecutionStatus.COMPLETED:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Steptrail]:
    async with asyncio.timeout(2 * PATIENCE), Steptrail.open(url) as trail:
        yield trail


async def test_what_a_crash_left_is_carried_on_once(store_url: str, desk: Desk) -> None:
    names = [f"s{number}" for number in range(5)]
    await left_by_a_crash(store_url, desk.agent(), *names)
    async with opened(store_url) as trail, trail.work(desk.agent()):
        await ended(trail, *names)
    assert desk.ran == Counter({f"{name}:1:1:0": 1 for name in names})


async def test_an_answered_question_and_a_wait_that_is_over_are_carried_on_at_once(store_url: str, desk: Desk) -> None:
    paying = desk.agent(first="pay")
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(0.5, max_seconds=1))
    waiting = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy)
    patient = waiting.with_limits(Limits(longest_wait=0.1)).build()
    async with opened(store_url) as trail:
        asked = await trail.run(paying, "pay", session="asks")
        assert (await trail.run(patient, "go", session="waits")).status is ExecutionStatus.WAITING
        async with trail.work(paying):
            await ended(trail, "waits")
            await asyncio.sleep(0.1)
            assert (await trail.session("asks").state()).status is ExecutionStatus.WAITING
            await trail.session("asks").approve(asked.state.open_approvals[0].id, by="ana")
            await ended(trail, "asks")


async def test_what_waits_for_a_subagent_is_carried_on_when_that_ones_question_is_answered(
    store_url: str, desk: Desk
) -> None:
    below = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="pay"), "All is paid."]).with_tools(below).build()
    async with opened(store_url) as trail, trail.work(boss):
        await trail.start(boss, "go", session="s")
        while not (asked := await trail.inbox()):
            await asyncio.sleep(0.01)
        await trail.session(id_of(asked[0].stream)).approve(asked[0].id, by="ana")
        await ended(trail, "s")


async def test_what_waits_for_a_workflow_is_carried_on_when_its_question_is_answered(store_url: str) -> None:
    flow = Workflow("below").human("ask", prompt="Pay?", output="said").build()
    boss = agent_of([call("below"), "All is paid."]).with_tools(FlowTool(flow)).build()
    async with opened(store_url) as trail, trail.work(boss):
        await trail.start(boss, "go", session="s")
        while not (asked := await trail.inbox()):
            await asyncio.sleep(0.01)
        await trail.flow(id_of(asked[0].stream)).answer("ask", approved=True, by="ana")
        await ended(trail, "s")
        assert len(await trail.runs()) == 2


async def test_what_a_person_paused_stays_so_and_a_message_to_it_is_answered(store_url: str, desk: Desk) -> None:
    desk.gate.clear()
    async with opened(store_url) as trail:
        running = asyncio.create_task(trail.run(desk.agent(), "go", session="s"))
        await until(lambda: desk.inside == 1)
        await trail.session("s").pause(by="ana")
        desk.gate.set()
        assert (await running).status is ExecutionStatus.PAUSED
        async with trail.work(desk.agent()):
            await asyncio.sleep(1.5)
            assert (await trail.session("s").state()).status is ExecutionStatus.PAUSED


async def test_a_session_whose_agent_is_not_here_is_left_to_a_worker_that_has_it(
    store_url: str, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await left_by_a_crash(store_url, desk.agent(), "s")
    stranger = AgentBuilder("stranger").with_model(ScriptedModel(["hello"])).build()
    other = Steptrail.open(store_url)
    with caplog.at_level(logging.INFO, "steptrail.runs"):
        async with opened(store_url) as trail, other, other.work(stranger):
            await until(lambda: "left to a worker that has agent 'calc'" in caplog.text)
            await asyncio.sleep(1.2)
            assert caplog.text.count("left to a worker") == 1
            async with trail.work(desk.agent()):
                await ended(trail, "s")


async def test_no_more_run_at_once_than_are_allowed(store_url: str, desk: Desk) -> None:
    names = [f"s{number}" for number in range(7)]
    await left_by_a_crash(store_url, desk.agent(), *names)
    desk.gate.clear()
    async with opened(store_url) as trail, trail.work(desk.agent(), concurrency=2) as worker:
        await until(lambda: desk.inside == 2)
        assert len(worker.running) == 2
        desk.gate.set()
        await ended(trail, *names)
    assert desk.most == 2


async def test_two_workers_share_the_work_and_no_session_has_two_owners(store_url: str, desk: Desk) -> None:
    names = [f"s{number}" for number in range(20)]
    await left_by_a_crash(store_url, desk.agent(), *names)
    async with opened(store_url) as trail, opened(store_url) as other:
        async with trail.work(desk.agent(), concurrency=3), other.work(desk.agent(), concurrency=3):
            await ended(trail, *names)
        for name in names:
            segments = [r.head.segment for r in await trail.session(name).events() if r.head is not None]
            assert max(segments) == 2
    assert set(desk.ran.values()) == {1}


async def test_a_worker_that_drains_lets_a_call_end_and_leaves_the_session_due(store_url: str, desk: Desk) -> None:
    await left_by_a_crash(store_url, desk.agent(), "s")
    desk.gate.clear()
    async with opened(store_url) as trail:
        async with trail.work(desk.agent()) as worker:
            await until(lambda: desk.inside == 1)
            draining = asyncio.create_task(worker.drain())
            await asyncio.sleep(0.3)
            desk.gate.set()
            await draining
            state = await trail.session("s").state()
            assert (state.status, worker.running) == (ExecutionStatus.PAUSED, ())
            assert [row.session_id for row in await trail.due()] == ["s"]
        async with trail.work(desk.agent()):
            await ended(trail, "s")
    assert desk.ran == Counter({"s:1:1:0": 1})


async def test_a_call_that_outlasts_the_grace_is_cut_off_and_runs_again_elsewhere(store_url: str, desk: Desk) -> None:
    await left_by_a_crash(store_url, desk.agent(), "s")
    desk.gate.clear()
    async with opened(store_url) as trail:
        async with trail.work(desk.agent(), grace=0.2):
            await until(lambda: desk.inside == 1)
        assert desk.inside == 0
        desk.gate.set()
        async with trail.work(desk.agent()):
            await ended(trail, "s")
    assert desk.ran == Counter({"s:1:1:0": 2})


async def test_the_version_of_the_agent_that_began_goes_on(store_url: str) -> None:
    told: list[str] = []

    def version(word: str) -> Agent:
        @tool(effect=ToolEffect.IDEMPOTENT, description=f"Say {word}.")
        def say_it() -> str:
            told.append(word)
            return word

        return agent_of([call("say_it"), "Done."]).with_tools(say_it).build()

    old, new = version("old"), version("new")
    await left_by_a_crash(store_url, old, "of-old")
    await left_by_a_crash(store_url, new, "of-new")
    async with opened(store_url) as trail, trail.work(old, new, concurrency=1):
        await ended(trail, "of-old", "of-new")
    assert told == ["old", "new"]


async def test_a_session_that_cannot_go_on_is_not_tried_again_before_it_has_moved(
    store_url: str, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await left_by_a_crash(store_url, desk.agent(), "bad", "still")
    tried: Counter[str] = Counter()

    def carry(row: RunSummary) -> Work:
        async def fails() -> None:
            tried[row.session_id] += 1
            if row.session_id == "bad":
                raise ZeroDivisionError("a mistake in the code of the host")

        return fails

    store = open_store(store_url)
    async with Worker(Environment(store=store), carry, concurrency=2, grace=1.0):
        await until(lambda: len(tried) == 2)
        await asyncio.sleep(1.3)
        assert tried == {"bad": 1, "still": 1}
        assert caplog.text.count("could not be carried on") == 1
        async with Steptrail.open(store_url) as trail:
            lease = await store.acquire("agent:bad", owner="somebody")
            await trail.session("bad").send(desk.agent(), "and?")
            await lease.release()
            await until(lambda: tried["bad"] == 2)
    await store.close()


async def test_a_fork_with_a_name_of_its_own_is_carried_on_by_the_agent_of_its_run(store_url: str) -> None:
    agent = agent_of(["One.", "Two."]).build()
    async with opened(store_url) as trail:
        await trail.run(agent, "go", session="s")
        fork = await trail.session("s").fork(session="f", name="another way")
        await fork.post(agent, "and now?")
        async with trail.work(agent):
            await ended(trail, "f")
        assert [row.name for row in await trail.runs()] == [agent.name, agent.name]


async def test_closing_the_trail_ends_a_worker_without_a_warning(
    store_url: str, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    trail = Steptrail.open(store_url)
    async with trail.work(desk.agent()):
        await asyncio.sleep(0.1)
        await trail.close()
    assert caplog.text == ""


async def test_a_worker_needs_an_agent_a_hand_and_a_grace(store_url: str, desk: Desk) -> None:
    async with Steptrail.open(store_url) as trail:
        with pytest.raises(ConfigurationError, match="needs the agents"):
            trail.work()
        with pytest.raises(ConfigurationError, match="at least one session"):
            trail.work(desk.agent(), concurrency=0)
        for grace in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ConfigurationError, match="the grace of a worker"):
                trail.work(desk.agent(), grace=grace)
