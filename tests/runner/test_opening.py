"""What opens a run is stored in one commit with what comes first in it, and before any code of the user runs."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steptrail import AgentBuilder, HookType, Steptrail
from steptrail.continuation import CallableCriterion
from steptrail.domain.errors import CommandRejected, SessionNotFound
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.kernel.record import Commit, Recorded
from steptrail.hooks import CallableHook, HookState
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow
from tests.processes.agents.interposed import Interposed
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of


@asynccontextmanager
async def trail_with_a_moment() -> AsyncGenerator[tuple[Steptrail, Interposed]]:
    store = Interposed()
    try:
        yield Steptrail(Environment(store=store, clock=HandClock())), store
    finally:
        await store.close()


class Commits(list[list[str]]):
    """The types of the events of each commit, in order."""

    def note(self, records: Sequence[Recorded[Any]]) -> None:
        self.append([type(record.event).__name__ for record in records])


def three_nodes() -> BuiltWorkflow:
    async def twice(envelope: Envelope) -> int:
        return 2 * int(str(envelope.input))

    flow = Workflow("count")
    for name in ("a", "b", "c"):
        flow = flow.function(name, twice, output=name)
    return flow.chain("a", "b", "c").build()


async def test_a_run_of_one_step_is_two_commits() -> None:
    commits = Commits()
    async with trail_of() as trail:
        result = await trail.run(agent_of(["Hello."]).build(), "hi", session="s", on_commit=commits.note)
    assert result.output == "Hello."
    assert [(each[0], each[-1]) for each in commits] == [
        ("SessionStarted", "InferenceStarted"),
        ("InferenceCompleted", "ExecutionFinished"),
    ]


async def test_a_run_of_a_workflow_is_a_commit_for_each_node_and_one_more() -> None:
    commits = Commits()
    async with trail_of() as trail:
        result = await trail.run(three_nodes(), 2, session="s", on_commit=commits.note)
    assert result.status == "completed"
    assert [(each[0], each[-1]) for each in commits] == [
        ("SessionStarted", "NodeAttemptStarted"),
        ("NodeAttemptCompleted", "NodeAttemptStarted"),
        ("NodeAttemptCompleted", "NodeAttemptStarted"),
        ("NodeAttemptCompleted", "ExecutionFinished"),
    ]


async def test_an_agent_that_kills_each_process_before_its_first_effect_ends() -> None:
    agent = agent_of(["Hello."]).build()
    async with trail_of() as trail:
        session = await trail.start(agent, "hi", session="s")
        for _ in range(4):
            with pytest.raises(Crash):
                await again_on(trail, reach=crash_at("before-append", 2)).session("s").resume(agent)
        result = await session.resume(agent)
    assert (result.status, result.stop_reason) == ("completed", "guard")


async def test_a_workflow_that_kills_each_process_before_its_first_effect_ends() -> None:
    async with trail_of() as trail:
        flow = await trail.start(three_nodes(), 2, session="s")
        for _ in range(4):
            with pytest.raises(Crash):
                await again_on(trail, reach=crash_at("before-append", 2)).flow("s").resume(three_nodes())
        result = await flow.resume(three_nodes())
    assert (result.status, result.stop_reason) == ("failed", "guard")


async def test_code_of_the_user_finds_its_run_in_the_store() -> None:
    seen: dict[str, str] = {}
    commits = Commits()

    async def look(place: str) -> None:
        seen[place] = (await again_on(trail).handle("flow:f" if place.startswith("node") else "s").state()).status

    async def before(state: HookState) -> HookState:
        await look("hook")
        return state

    class Looking(ScriptedModel):
        async def infer(self, request: ModelRequest) -> ModelReply:
            await look("model")
            return await super().infer(request)

    async def node(envelope: Envelope) -> int:
        await look("node")
        return 1

    def is_fine(envelope: Envelope) -> bool:
        seen["gate"] = commits[0][0]
        return True

    async with trail_of() as trail:
        asked = AgentBuilder("z").with_model(ScriptedModel(["Hello."]))
        asked.with_criteria(CallableCriterion(lambda _: bool(commits), name="seen"))
        await trail.run(asked.build(), "hi", session="c", on_commit=commits.note)
        assert commits.pop(0)[-1] == "ExecutionStarted"
        commits.clear()
        hooked = AgentBuilder("x").with_model(ScriptedModel(["Hello."]))
        hooked = hooked.with_hook(HookType.EXECUTION_START, CallableHook(before, name="before"))
        await trail.run(hooked.build(), "hi", session="s")
        assert seen.pop("hook") == "in_progress"
        await again_on(trail).run(AgentBuilder("y").with_model(Looking(["Hello."])).build(), "again", session="s")
        assert seen.pop("model") == "in_progress"
        await trail.run(Workflow("f").function("a", node).build(), None, session="f")
        assert seen.pop("node") == "in_progress"
        flow = Workflow("g").gate("a", when=is_fine).noop("b").chain("a", "b").build()
        await trail.run(flow, None, session="g", on_commit=commits.note)
        assert seen == {"gate": "SessionStarted"}


async def test_a_crash_before_the_first_commit_leaves_nothing_and_the_same_call_runs() -> None:
    async with trail_of(reach=crash_at("before-append")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent_of(["Hello."]).build(), "hi", session="s")
        with pytest.raises(SessionNotFound):
            await trail.session("s").state()
        assert (await again_on(trail).run(agent_of(["Hello."]).build(), "hi", session="s")).output == "Hello."


# A start needs no lease, so it can come first while another process holds that.


def let_come_first(store: Interposed, start: Callable[[], Awaitable[object]]) -> None:
    """Have another process start something just before the next append, once."""

    async def overtake(commit: Commit) -> None:
        store.before_append = _nothing
        await start()

    store.before_append = overtake


async def test_an_opening_of_an_agent_that_was_overtaken_is_decided_anew_and_nothing_of_it_is_kept() -> None:
    async with trail_with_a_moment() as (trail, store):
        agent = agent_of(["Hello."]).build()
        let_come_first(store, lambda: again_on(trail).start(agent, "another", session="s"))
        with pytest.raises(CommandRejected, match="another input"):
            await trail.run(agent, "hi", session="s")
        types = [type(record.event).__name__ for record in await trail.session("s").events()]
        assert types == ["SessionStarted", "ExecutionStarted"]
        assert (await trail.session("s").state()).status == "pending"


async def test_an_opening_of_a_workflow_that_was_overtaken_is_decided_anew_and_nothing_of_it_is_kept() -> None:
    async with trail_with_a_moment() as (trail, store):
        let_come_first(store, lambda: again_on(trail).start(three_nodes(), 3, session="s"))
        with pytest.raises(CommandRejected, match="another input"):
            await trail.run(three_nodes(), 2, session="s")
        types = [type(record.event).__name__ for record in await trail.flow("s").events()]
        assert types == ["SessionStarted", "FlowStarted"]
        assert (await trail.flow("s").state()).status == "pending"


async def test_an_opening_that_the_same_call_has_overtaken_is_gone_on_with() -> None:
    async with trail_with_a_moment() as (trail, store):
        agent = agent_of(["Hello."]).build()
        let_come_first(store, lambda: again_on(trail).start(agent, "hi", session="s"))
        result = await trail.run(agent, "hi", session="s")
        assert (result.output, result.state.fold.executions) == ("Hello.", 1)


async def test_who_is_cancelled_in_the_first_commit_leaves_a_run_that_is_paused() -> None:
    async with trail_with_a_moment() as (trail, store):
        stored = asyncio.Event()

        async def hold(commit: Commit) -> None:
            del commit
            store.after_append = _nothing
            stored.set()
            await asyncio.sleep(0)

        store.after_append = hold
        running = asyncio.ensure_future(trail.run(agent_of(["Hello."]).build(), "hi", session="s"))
        await stored.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await trail.session("s").state()).status == "paused"
        assert (await again_on(trail).run(agent_of(["Hello."]).build(), "hi", session="s")).output == "Hello."


async def _nothing(commit: Commit) -> None:
    del commit
