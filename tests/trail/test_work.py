"""A worker carries on what is due, whatever left it there, and leaves it to others when it ends.

All of it holds wherever the worker hears of what is due: it looks itself, an engine wakes it, or an engine wakes it
twice, late, elsewhere at the same moment, or not at all.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, ErrorPolicy, ToolEffect, tool
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.commands import Pause
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.events import PauseRequested
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.errors import (
    ArgumentsAltered,
    CommandRejected,
    ConfigurationError,
    RecordTooNew,
    StoredContextInvalid,
    StoreFull,
    StoreUnavailable,
)
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel import hands
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, Work
from steptrail.runtime.kernel.looking import Looking
from steptrail.runtime.kernel.room import Room
from steptrail.runtime.kernel.woken import Woken
from steptrail.runtime.kernel.worker import Worker
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool, Tool
from steptrail.workflow import BuiltWorkflow, FlowTool, Workflow
from tests.runner.kit import agent_of
from tests.trail.workers import ON_FILES_ONLY, PATIENCE, Desk, Place, ended, left_by_a_crash, until

pytestmark = pytest.mark.usefixtures("often")


class Order(BaseModel):
    number: int


class NamedOrder(BaseModel):
    name: str


async def test_what_a_crash_left_is_carried_on_once(place: Place, desk: Desk) -> None:
    names = [f"s{number}" for number in range(5)]
    await left_by_a_crash(place.url, desk.agent(), *names)
    async with place.opened() as trail, trail.work(desk.agent()):
        await ended(trail, *names)
    assert desk.ran == Counter({f"{name}:1:1:0": 1 for name in names})


async def test_an_answered_question_and_a_wait_that_is_over_are_carried_on_at_once(
    place: Place, desk: Desk, pass_by: Callable[[], Awaitable[None]]
) -> None:
    paying = desk.agent(first="pay")
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(0.2, max_seconds=1))
    waiting = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy)
    patient = waiting.with_limits(Limits(longest_wait=0.1)).build()
    async with place.opened() as trail:
        asked = await trail.run(paying, "pay", session="asks")
        assert (await trail.run(patient, "go", session="waits")).status is ExecutionStatus.WAITING
        async with trail.work(paying):
            await ended(trail, "waits")
            await pass_by()
            assert (await trail.session("asks").state()).status is ExecutionStatus.WAITING
            await trail.session("asks").approve(asked.state.open_approvals[0].id, by="ana")
            await ended(trail, "asks")


async def test_what_waits_for_a_subagent_is_carried_on_when_that_ones_question_is_answered(
    place: Place, desk: Desk
) -> None:
    below = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="pay"), "All is paid."]).with_tools(below).build()
    async with place.opened() as trail, trail.work(boss):
        await trail.start(boss, "go", session="s")
        while not (asked := await trail.inbox()):
            await asyncio.sleep(0.01)
        await trail.session(id_of(asked[0].stream)).approve(asked[0].id, by="ana")
        await ended(trail, "s")


async def test_what_waits_for_a_workflow_is_carried_on_when_its_question_is_answered(place: Place) -> None:
    flow = Workflow("below").human("ask", prompt="Pay?", output="said").build()
    boss = agent_of([call("below"), "All is paid."]).with_tools(FlowTool(flow)).build()
    async with place.opened() as trail, trail.work(boss):
        await trail.start(boss, "go", session="s")
        while not (asked := await trail.inbox()):
            await asyncio.sleep(0.01)
        await trail.flow(id_of(asked[0].stream)).answer("ask", approved=True, by="ana")
        await ended(trail, "s")
        assert len(await trail.runs()) == 2


async def test_what_a_person_paused_stays_so_and_a_message_to_it_is_answered(
    place: Place, desk: Desk, pass_by: Callable[[], Awaitable[None]]
) -> None:
    desk.gate.clear()
    async with place.opened() as trail:
        running = asyncio.create_task(trail.run(desk.agent(), "go", session="s"))
        await until(lambda: desk.inside == 1)
        await trail.session("s").pause(by="ana")
        desk.gate.set()
        assert (await running).status is ExecutionStatus.PAUSED
        async with trail.work(desk.agent()):
            await pass_by()
            assert (await trail.session("s").state()).status is ExecutionStatus.PAUSED
            await trail.session("s").post(desk.agent(), "And now?")
            await ended(trail, "s")


async def test_a_session_whose_agent_is_not_here_is_left_to_a_worker_that_has_it(
    place: Place, desk: Desk, caplog: pytest.LogCaptureFixture, pass_by: Callable[[], Awaitable[None]]
) -> None:
    await left_by_a_crash(place.url, desk.agent(), "s")
    stranger = AgentBuilder("stranger").with_model(ScriptedModel(["hello"])).build()
    other = place.open()
    with caplog.at_level(logging.INFO, "steptrail.runs"):
        async with place.opened() as trail, other, other.work(stranger):
            await until(lambda: "left to a worker that has 'calc'" in caplog.text)
            await pass_by()
            assert caplog.text.count("left to a worker") == 1
            async with trail.work(desk.agent()):
                await ended(trail, "s")
            await trail.start(Workflow("pipeline").noop("begin").build(), session="s")
            # An agent has a session of that name, too.
            await until(lambda: "session flow:s is due, and left to a worker that has 'pipeline'" in caplog.text)


async def test_no_more_run_at_once_than_are_allowed(place: Place, desk: Desk) -> None:
    names = [f"s{number}" for number in range(7)]
    await left_by_a_crash(place.url, desk.agent(), *names)
    desk.gate.clear()
    async with place.opened() as trail, trail.work(desk.agent(), concurrency=2) as worker:
        await until(lambda: desk.inside == 2)
        assert len(worker.running) == 2
        desk.gate.set()
        await ended(trail, *names)
    assert desk.most == 2


@pytest.mark.acceptance("9.2-1")
async def test_two_workers_share_the_work_and_no_session_has_two_owners(place: Place, desk: Desk) -> None:
    names = [f"s{number}" for number in range(12)]
    await left_by_a_crash(place.url, desk.agent(), *names)
    async with place.opened() as trail, place.opened() as other:
        async with trail.work(desk.agent(), concurrency=3), other.work(desk.agent(), concurrency=3):
            await ended(trail, *names)
        for name in names:
            segments = [r.head.segment for r in await trail.session(name).events() if r.head is not None]
            assert max(segments) == 2
    assert set(desk.ran.values()) == {1}


async def test_a_worker_that_drains_lets_a_call_end_and_leaves_the_session_due(place: Place, desk: Desk) -> None:
    await left_by_a_crash(place.url, desk.agent(), "s")
    desk.gate.clear()
    async with place.opened() as trail:
        async with trail.work(desk.agent()) as worker:
            await until(lambda: desk.inside == 1)
            draining = asyncio.create_task(worker.drain())
            async with asyncio.timeout(PATIENCE):
                while not any(isinstance(r.event, PauseRequested) for r in await trail.session("s").events()):
                    await asyncio.sleep(0.01)
            assert desk.inside == 1
            desk.gate.set()
            await draining
            state = await trail.session("s").state()
            assert (state.status, worker.running) == (ExecutionStatus.PAUSED, ())
            assert [row.session_id for row in await trail.due()] == ["s"]
        async with trail.work(desk.agent()):
            await ended(trail, "s")
    assert desk.ran == Counter({"s:1:1:0": 1})


async def test_a_call_that_outlasts_the_grace_is_cut_off_and_runs_again_elsewhere(place: Place, desk: Desk) -> None:
    await left_by_a_crash(place.url, desk.agent(), "s")
    desk.gate.clear()
    async with place.opened() as trail:
        async with trail.work(desk.agent(), grace=0.2):
            await until(lambda: desk.inside == 1)
        assert desk.inside == 0
        desk.gate.set()
        async with trail.work(desk.agent()):
            await ended(trail, "s")
    assert desk.ran == Counter({"s:1:1:0": 2})


async def test_a_store_that_does_not_answer_keeps_no_worker_from_its_end_longer_than_the_grace(
    place: Place, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    class Silent:
        def __init__(self, _: Environment, stream: str) -> None:
            self.stream = stream

        async def request(self, pause: Pause) -> None:
            asked.append(f"{self.stream} {pause.by}")
            await asyncio.Event().wait()

    desk.gate.clear()
    monkeypatch.setattr(hands, "control_of", Silent)
    async with place.opened() as trail:
        for name in ("a", "b"):
            await trail.start(desk.agent(), "go", session=name)
        async with trail.work(desk.agent(), grace=0.2):
            await until(lambda: desk.inside == 2)
        assert desk.inside == 0
        assert sorted(asked) == ["agent:a caller", "agent:b caller"]
        assert {row.session_id for row in await trail.due()} == {"a", "b"}


@pytest.mark.parametrize("pause_is_stored", [False, True])
async def test_a_worker_whose_drain_is_cancelled_leaves_no_call_running(
    place: Place, desk: Desk, pause_is_stored: bool
) -> None:
    await left_by_a_crash(place.url, desk.agent(), "s")
    desk.gate.clear()
    async with place.opened() as trail:
        worker = await trail.work(desk.agent(), grace=10 * PATIENCE).__aenter__()
        await until(lambda: desk.inside == 1)
        draining = asyncio.create_task(worker.drain())
        await asyncio.sleep(0)
        while pause_is_stored and not any(
            isinstance(r.event, PauseRequested) for r in await trail.session("s").events()
        ):
            await asyncio.sleep(0.01)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        assert (desk.inside, worker.running) == (0, ())
        assert [row.session_id for row in await trail.due()] == ["s"]
        desk.gate.set()
        async with trail.work(desk.agent()):
            await ended(trail, "s")
    assert desk.ran == Counter({"s:1:1:0": 2})


@ON_FILES_ONLY
async def test_the_version_of_the_agent_that_began_goes_on(place: Place) -> None:
    told: list[str] = []

    def version(word: str) -> Agent:
        @tool(effect=ToolEffect.IDEMPOTENT, description=f"Say {word}.")
        def say_it() -> str:
            told.append(word)
            return word

        return agent_of([call("say_it"), "Done."]).with_tools(say_it).build()

    old, new = version("old"), version("new")
    await left_by_a_crash(place.url, old, "of-old")
    await left_by_a_crash(place.url, new, "of-new")
    async with place.opened() as trail, trail.work(old, new, concurrency=1):
        await ended(trail, "of-old", "of-new")
    assert told == ["old", "new"]


@ON_FILES_ONLY
async def test_of_two_versions_that_differ_in_the_code_of_a_tool_alone_the_last_goes_on(place: Place) -> None:
    told: list[str] = []

    def version(word: str) -> Agent:
        @tool(effect=ToolEffect.IDEMPOTENT)
        def say_it() -> str:
            """Say it."""
            told.append(word)
            return word

        return agent_of([call("say_it"), "Done."]).with_tools(say_it).build()

    def flow(word: str) -> BuiltWorkflow:
        def say_it(_: object) -> None:
            told.append(word)

        return Workflow("w").function("say", say_it).build()

    async with place.opened() as trail:
        await trail.start(version("new"), "go", session="s")
        await trail.start(flow("new"), session="f")
        async with trail.work(version("old"), flow("old"), version("new"), flow("new")):
            await ended(trail, "s", "flow:f")
    assert told == ["new", "new"]


@pytest.mark.acceptance("9.2-5")
@ON_FILES_ONLY
async def test_with_strict_a_session_goes_on_only_with_the_very_agent_that_began_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    def version(word: str) -> Agent:
        return agent_of([call("say_it"), word]).with_tools(said(word)).build()

    def said(word: str) -> Tool:
        @tool(effect=ToolEffect.IDEMPOTENT, description=f"Say {word}.")
        def say_it() -> str:
            return word

        return say_it

    old, new = version("old"), version("new")
    await left_by_a_crash(place.url, old, "of-old")
    left: list[tuple[str, type[Exception] | None]] = []

    def note(row: RunSummary, error: Exception | None) -> None:
        left.append((row.session_id, type(error) if error else None))

    async with place.opened() as trail, trail.work(new, strict=True, on_left=note) as worker:
        await until(lambda: bool(left))
        assert left == [("of-old", CommandRejected)]
        assert set(worker.left) == {"agent:of-old"}
        async with place.opened() as other, other.work(old, strict=True):
            await ended(trail, "of-old")
        assert (await trail.session("of-old").state()).output == "old"
    assert caplog.text.count("is due, and left as it is") == 1


@ON_FILES_ONLY
async def test_a_context_that_no_longer_fits_leaves_the_session_to_a_worker_that_takes_it(place: Place) -> None:
    def agent(fields: type[BaseModel]) -> Agent[str, BaseModel]:
        return agent_of(["Done."]).with_context(fields).build()

    left: list[Exception | None] = []
    async with place.opened() as trail:
        await trail.start(agent(Order), "go", session="s", context=Order(number=7))
        async with trail.work(agent(NamedOrder), on_left=lambda _, error: left.append(error)):
            await until(lambda: bool(left))
            assert isinstance(left[0], StoredContextInvalid)
            async with place.opened() as other, other.work(agent(Order)):
                await ended(trail, "s")


async def test_no_more_of_one_agent_run_at_once_than_are_allowed_and_others_go_on(place: Place, desk: Desk) -> None:
    names = [f"s{number}" for number in range(5)]
    quick = AgentBuilder("quick").with_model(ScriptedModel(["Yes."] * 9)).build()
    await left_by_a_crash(place.url, desk.agent(), *names)
    desk.gate.clear()
    async with place.opened() as trail, trail.work(desk.agent(), quick, per_agent={"calc": 2}) as worker:
        await until(lambda: desk.inside == 2)
        await trail.start(quick, "go", session="q")
        await ended(trail, "q")
        assert len({*worker.running} - {"agent:q"}) == 2
        desk.gate.set()
        await ended(trail, *names)
    assert desk.most == 2


@pytest.mark.acceptance("9.2-4")
async def test_no_more_of_one_tenant_run_at_once_than_are_allowed_and_others_go_on(place: Place, desk: Desk) -> None:
    desk.gate.clear()
    async with place.opened() as trail:
        for number in range(4):
            await trail.start(desk.agent(), "go", session=f"a{number}", metadata={"tenant": "acme"})
        async with trail.work(desk.agent(), per_tenant={"*": 3, "acme": 1}) as worker:
            await until(lambda: desk.inside == 1)
            await trail.start(desk.agent(), "go", session="b", metadata={"tenant": "bolt"})
            await trail.start(desk.agent(), "go", session="nobodys")
            await until(lambda: desk.inside == 3)
            assert {name for name in worker.running if name.startswith("agent:a")} < {f"agent:a{n}" for n in range(4)}
            desk.gate.set()
            await ended(trail, "b", "nobodys", *(f"a{number}" for number in range(4)))
    assert desk.most == 3


async def test_a_session_that_cannot_go_on_keeps_no_hand_and_is_not_tried_again_before_it_has_moved(
    place: Place, desk: Desk, caplog: pytest.LogCaptureFixture, pass_by: Callable[[], Awaitable[None]]
) -> None:
    bad: Mapping[str, tuple[Exception, str]] = {
        "broken": (ZeroDivisionError("a mistake in the code of the host"), "could not be carried on"),
        "newer": (RecordTooNew("agent:newer", 2, "execution.started.v2", "a newer version wrote it"), "left as it is"),
        "altered": (ArgumentsAltered("altered", "pay", "altered:1:1:0", "it was approved"), "left as it is"),
    }
    await left_by_a_crash(place.url, desk.agent(), *bad, "still")
    tried: Counter[str] = Counter()

    def carry(row: RunSummary) -> Work:
        async def fails() -> None:
            tried[row.session_id] += 1
            if row.session_id in bad:
                raise bad[row.session_id][0]

        return fails

    store, engine = open_store(place.url), place.engine()
    env = Environment(store=store)
    hands = Hands(env, carry, room=Room(1), grace=1.0)
    async with Worker(hands, Looking(env) if engine is None else Woken(env, engine, ["agent:calc"])):
        await until(lambda: len(tried) == 4)
        await pass_by()
        assert tried == {**dict.fromkeys(bad, 1), "still": 1}
        async with place.open() as trail:
            for name, (_, said) in bad.items():
                assert caplog.text.count(f"session {name} is due, and {said}") == 1
                lease = await store.acquire(f"agent:{name}", owner="somebody")
                await trail.session(name).send(desk.agent(), "and?")
                await lease.release()
            await until(lambda: min(tried[name] for name in bad) >= 2)
    if engine is not None:
        await engine.close()
    await store.close()


async def test_a_session_that_the_store_refuses_has_a_rest_and_takes_no_hand_from_those_behind_it(
    place: Place, desk: Desk, pass_by: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(hands, "_LONGEST_REST_SECONDS", 10 * PATIENCE)
    await left_by_a_crash(place.url, desk.agent(), "refused", "behind")
    tried: Counter[str] = Counter()

    def carry(row: RunSummary) -> Work:
        async def goes_on() -> None:
            tried[row.session_id] += 1
            if row.session_id == "refused":
                raise StoreFull("no space left for so much")

        return goes_on

    store, engine = open_store(place.url), place.engine()
    env = Environment(store=store)
    ours = Hands(env, carry, room=Room(1), grace=1.0)
    async with Worker(ours, Looking(env) if engine is None else Woken(env, engine, ["agent:calc"])):
        await until(lambda: tried.keys() == {"refused", "behind"})
        await pass_by()
        assert tried == {"refused": 1, "behind": 1}
    if engine is not None:
        await engine.close()
    await store.close()


async def test_a_fork_with_a_name_of_its_own_is_carried_on_by_the_agent_of_its_run(place: Place) -> None:
    agent = agent_of(["One.", "Two."]).build()
    async with place.opened() as trail:
        await trail.run(agent, "go", session="s")
        fork = await trail.session("s").fork(session="f", name="another way")
        await fork.post(agent, "and now?")
        async with trail.work(agent):
            await ended(trail, "f")
        assert [row.name for row in await trail.runs()] == [agent.name, agent.name]


async def test_closing_the_trail_ends_a_worker_without_a_warning(
    place: Place, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    trail = place.open()
    async with trail.work(desk.agent()):
        await asyncio.sleep(0.1)
        await trail.close()
    assert caplog.text == ""


async def test_a_closed_trail_has_no_workers(place: Place, desk: Desk) -> None:
    trail = place.open()
    await trail.close()
    with pytest.raises(StoreUnavailable, match="the trail is closed: open it again to work"):
        trail.work(desk.agent())


async def test_a_worker_needs_an_agent_a_hand_and_a_grace(place: Place, desk: Desk) -> None:
    async with place.open() as trail:
        with pytest.raises(ConfigurationError, match="needs the agents"):
            trail.work()
        wrong: Any
        for wrong in (0, "8", None, 1.5):  # a text is what an environment variable has
            with pytest.raises(ConfigurationError, match=r"the concurrency of a worker is a (whole )?number"):
                trail.work(desk.agent(), concurrency=wrong)
        for wrong in (0, "2", 1.5):
            with pytest.raises(ConfigurationError, match=r"per_agent is a (whole )?number"):
                trail.work(desk.agent(), per_agent=wrong)
            with pytest.raises(ConfigurationError, match=r"per_tenant of 'acme' is a (whole )?number"):
                trail.work(desk.agent(), per_tenant={"acme": wrong})
        for grace in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ConfigurationError, match="the grace of a worker"):
                trail.work(desk.agent(), grace=grace)

        async def noted(run: object, error: object) -> None:
            raise AssertionError("nobody awaits it")

        with pytest.raises(ConfigurationError, match="`on_left` is a plain function"):
            trail.work(desk.agent(), on_left=noted)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
