"""Whoever ends a loop, as `asyncio.run` does, cancels all of its tasks at once: the run, and also what it waits for."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent, InferenceCompleted, ToolExecutionInterrupted
from steptrail.domain.errors import AppendOutcomeUnknown, StoreError, StoreLocked
from steptrail.domain.kernel.record import Commit, StreamHead
from steptrail.models import ModelReply, ModelRequest
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Workflow

has_begun: asyncio.Event


async def hangs() -> None:
    has_begun.set()
    await asyncio.Event().wait()


@tool(effect=ToolEffect.IDEMPOTENT)
async def look() -> str:
    """Look, for ever."""
    await hangs()
    return "never"


@tool(name="look", effect=ToolEffect.IDEMPOTENT)
async def look_again() -> str:
    """Look, for a moment."""
    return "here"


class Silent(ScriptedModel):
    """A model that never answers."""

    async def infer(self, request: ModelRequest) -> ModelReply:
        await hangs()
        return await super().infer(request)


def of_kind(kind: str) -> AnyAgent | BuiltWorkflow:
    model = Silent([]) if kind == "model" else ScriptedModel([call("look")])
    agent = AgentBuilder("a").with_model(model).with_tools(look).build()
    return Workflow("w").agent("below", agent, prompt="Go.").build() if kind == "flow" else agent


async def begun_with(kind: str, trail: Steptrail, *, session: str) -> "asyncio.Task[object]":
    """Return the task of a run that waits for a call."""
    global has_begun
    has_begun = asyncio.Event()
    running = asyncio.create_task(trail.run(of_kind(kind), "Go.", session=session))
    await has_begun.wait()
    return running


@pytest.mark.parametrize("run_first", [True, False])
@pytest.mark.parametrize("kind", ["tool", "model", "flow"])
async def test_a_run_whose_loop_ends_is_paused_whichever_of_its_tasks_is_cancelled_first(
    kind: str, run_first: bool
) -> None:
    """It had failed, where the call heard of it before the run did: nobody had asked the call to cancel itself."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        others = asyncio.all_tasks()
        running = await begun_with(kind, trail, session="s")
        begun = sorted(asyncio.all_tasks() - others, key=lambda task: (task is running) is not run_first)
        assert len(begun) > 1
        for task in begun:
            task.cancel()
        await asyncio.wait(begun)
        assert running.cancelled()
        for row in await trail.runs():
            stored = [type(entry.event).__name__ for entry in await trail.handle(row.stream).events()]
            assert (row.status, [name for name in stored if name.endswith("Failed")]) == ("paused", [])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a task that is taken apart
def test_a_run_whose_loop_was_closed_in_its_middle_is_gone_on_with_in_another_loop(store_url: str) -> None:
    """The task that would have let its lease go never went on: everybody met `SessionBusy` while the process lived."""
    asyncio.run(gone_on_with(left_in_a_closed_loop(store_url)))
    gc.collect()  # here, so that what Python says of the task is said of this test


def left_in_a_closed_loop(store_url: str) -> Steptrail:
    """Return a trail of which a loop was closed, by hand, in the middle of the run `s`."""
    trail, loop = Steptrail.open(store_url), asyncio.new_event_loop()
    loop.run_until_complete(begun_with("tool", trail, session="s"))
    loop.close()
    return trail


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_whose_loop_was_closed_in_its_middle_is_due_for_a_worker_of_its_process(store_url: str) -> None:
    """Workers do not ask for the lease of what is being worked on, so it was never freed."""
    assert asyncio.run(due(left_in_a_closed_loop(store_url))) == ["s"]
    gc.collect()


async def due(trail: Steptrail) -> list[str]:
    async with trail:
        return [each.session_id for each in await trail.due()]


async def gone_on_with(trail: Steptrail) -> None:
    async with trail:
        agent = AgentBuilder("a").with_model(ScriptedModel([call("look"), "Seen."])).with_tools(look_again).build()
        assert (await trail.run(agent, "Go.", session="s")).output == "Seen."
        assert not await trail.store.leased()


async def test_a_run_that_is_being_paused_when_its_loop_ends_is_paused() -> None:
    """Where the task that stores the pause was cancelled before its first line, the run was left as a crash does."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        others = asyncio.all_tasks()
        for turns in range(30):
            running = await begun_with("tool", trail, session=f"s{turns}")
            running.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in (begun := asyncio.all_tasks() - others):
                task.cancel()
            if begun:
                await asyncio.wait(begun)
        assert {row.status for row in await trail.runs(limit=30)} == {"paused"}


def when_stored(
    monkeypatch: pytest.MonkeyPatch, trail: Steptrail, fact: type[AgentEvent], tell: Callable[[Commit], object]
) -> None:
    """Have `tell` called with each stored commit that has such a fact, a turn of the loop before its caller knows."""
    really = trail.store.append

    async def append(stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        end = await really(stream, expected, commit)
        if any(isinstance(event, fact) for _, event in commit.events):
            tell(commit)
            await asyncio.sleep(0)
        return end

    monkeypatch.setattr(trail.store, "append", append)


async def test_a_reply_that_is_being_stored_when_its_loop_ends_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question whether it was stored was cancelled too. It was stored again, and the model then saw it twice."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
        others, is_stored = asyncio.all_tasks(), asyncio.Event()
        when_stored(monkeypatch, trail, InferenceCompleted, lambda _: is_stored.set())
        for turns in range(8):
            is_stored.clear()
            running = asyncio.create_task(trail.run(agent, "Go.", session=f"s{turns}"))
            await is_stored.wait()
            running.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in (begun := asyncio.all_tasks() - others):
                task.cancel()
            if begun:
                await asyncio.wait(begun)
            events = [entry.event for entry in await trail.session(f"s{turns}").events()]
            assert sum(isinstance(event, InferenceCompleted) for event in events) == 1


@pytest.mark.parametrize("error", [AppendOutcomeUnknown("the server went away"), StoreLocked("by another process")])
async def test_a_reply_that_may_be_stored_is_not_stored_again_by_a_run_that_is_cancelled(
    error: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be asked now says that nothing was written: by this question, and not by the one before."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
        is_stored, unknown = asyncio.Event(), set[str]()

        def stored(commit: Commit) -> None:
            unknown.add(commit.head.commit_id)
            is_stored.set()

        when_stored(monkeypatch, trail, InferenceCompleted, stored)
        telling = trail.store.append

        async def append(stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
            if commit.head.commit_id in unknown:
                raise error
            return await telling(stream, expected, commit)

        monkeypatch.setattr(trail.store, "append", append)
        running = asyncio.create_task(trail.run(agent, "Go.", session="s"))
        await is_stored.wait()
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        events = [entry.event for entry in await trail.session("s").events()]
        assert sum(isinstance(event, InferenceCompleted) for event in events) == 1


@pytest.mark.parametrize("fact", [InferenceCompleted, ToolExecutionInterrupted])
async def test_what_is_being_stored_when_its_loop_is_ended_twice_is_stored_once(
    fact: type[AgentEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command cancels all tasks of its loop, and `asyncio.run` does so after it."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        others, asked = asyncio.all_tasks(), asyncio.Semaphore(0)
        when_stored(monkeypatch, trail, fact, lambda _: asked.release())
        if fact is InferenceCompleted:
            running: asyncio.Task[object] = asyncio.create_task(trail.run(of_kind("tool"), "Go.", session="s"))
        else:  # it is stored with the pause
            running = await begun_with("tool", trail, session="s")
            running.cancel()
        for _ in range(3):
            await asked.acquire()
            for task in asyncio.all_tasks() - others:
                task.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        events = [entry.event for entry in await trail.session("s").events()]
        assert sum(isinstance(event, fact) for event in events) == 1
