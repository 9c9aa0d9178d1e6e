"""A store that refuses what a model or a tool has done: the run keeps it, and stores it when that can be done."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ToolExecutionCompleted
from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    StoreAway,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.domain.flow.events import NodeAttemptCompleted
from steptrail.domain.kernel.record import Commit
from steptrail.runtime.kernel import journal
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.workflow import Workflow
from tests.harness.scarce import largest_file
from tests.processes.agents.interposed import Interposed

PASSING = (AppendOutcomeUnknown, StoreAway, StoreFull, StoreLocked, StoreReadOnly)


class Desk:
    """An agent that pays once. `full` holds what takes the room away, from the moment at which it has paid."""

    def __init__(self, room: int | None = None) -> None:
        self.paid, self.full, self._room = 0, ExitStack(), room

    def agent(self) -> Agent:
        @tool(effect=ToolEffect.UNSAFE)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            if self._room is not None:
                self.full.enter_context(largest_file(self._room))
            return "a receipt"

        script: list[Reply] = [call("pay"), "It is paid."]
        return AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(pay).build()


class Refusing(Interposed):
    """A store that refuses the end of a tool, or of a node, so many times."""

    def __init__(self, error: StoreError, times: int) -> None:
        super().__init__()
        self.error, self.left, self.refused = error, times, asyncio.Event()
        self.before_append = self._refuse

    async def _refuse(self, commit: Commit) -> None:
        if self.left and any(
            isinstance(event, ToolExecutionCompleted | NodeAttemptCompleted) for _, event in commit.events
        ):
            self.left -= 1
            self.refused.set()
            raise self.error


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(journal, "_LONGEST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def desk() -> Generator[Desk]:
    desk = Desk(room=1_000)
    with desk.full:
        yield desk


async def outcomes(trail: Steptrail) -> list[str]:
    state = await trail.session("s").state()
    return [str(each.status) for step in state.steps for each in step.tool_executions]


@pytest.mark.usefixtures("soon")
async def test_what_a_tool_has_done_on_a_full_disk_is_stored_when_there_is_room_again(
    tmp_path: Path, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        running = asyncio.create_task(trail.run(desk.agent(), "Pay.", session="s"))
        while not running.done() and "session s waits for its store with what has happened" not in caplog.text:
            await asyncio.sleep(0.01)
        desk.full.close()
        assert (await running).output == "It is paid."
        assert (desk.paid, await outcomes(trail)) == (1, ["completed"])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("refusal", PASSING)
async def test_a_refusal_that_passes_repeats_nothing(refusal: type[StoreError]) -> None:
    desk, store = Desk(), Refusing(refusal("not now"), 3)
    trail = Steptrail(Environment(store=store))
    assert (await trail.run(desk.agent(), "Pay.", session="s")).output == "It is paid."
    assert (desk.paid, store.left, await outcomes(trail)) == (1, 0, ["completed"])


@pytest.mark.usefixtures("soon")
async def test_nodes_that_have_ended_side_by_side_are_not_run_again() -> None:
    paid: list[str] = []

    def pays(what: str) -> Callable[[object], str]:
        def node(envelope: object) -> str:
            paid.append(what)
            return what

        return node

    flow = Workflow("pay twice").function("tea", pays("tea")).function("milk", pays("milk")).build()
    store = Refusing(StoreFull("no space left"), 3)
    assert (await Steptrail(Environment(store=store)).run(flow, session="s")).status == "completed"
    assert (sorted(paid), store.left) == (["milk", "tea"], 0)


async def test_a_store_that_goes_on_refusing_is_told_of_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_PATIENCE_SECONDS", 0.0)
    store = Refusing(StoreFull("no space left"), 100)
    with pytest.raises(StoreFull, match="no space left"):
        await Steptrail(Environment(store=store)).run(Desk().agent(), "Pay.", session="s")
    assert store.left == 98


async def test_a_store_that_will_not_take_it_later_either_is_told_of_at_once() -> None:
    store = Refusing(StoreUnavailable("the store is closed"), 100)
    with pytest.raises(StoreUnavailable, match="is closed"):
        await Steptrail(Environment(store=store)).run(Desk().agent(), "Pay.", session="s")
    assert store.left == 99


async def test_what_has_not_met_the_outside_world_is_refused_at_once() -> None:
    store, refused = Interposed(), list[Commit]()

    async def full(commit: Commit) -> None:
        refused.append(commit)
        raise StoreFull("no space left")

    store.before_append = full
    with pytest.raises(StoreFull):
        await Steptrail(Environment(store=store)).run(Desk().agent(), "Pay.", session="s")
    assert len(refused) == 1


async def test_a_caller_that_is_cancelled_waits_no_longer_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_FIRST_PAUSE_SECONDS", 3_600.0)
    store = Refusing(StoreFull("no space left"), 100)
    running = asyncio.create_task(Steptrail(Environment(store=store)).run(Desk().agent(), "Pay.", session="s"))
    await store.refused.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_caller_that_is_cancelled_and_can_store_what_has_happened_does() -> None:
    desk, store = Desk(), Refusing(StoreFull("no space left"), 1)
    trail = Steptrail(Environment(store=store))
    running = asyncio.create_task(trail.run(desk.agent(), "Pay.", session="s"))
    await store.refused.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await outcomes(trail) == ["completed"]
    assert (await trail.session("s").resume(desk.agent())).output == "It is paid."
    assert desk.paid == 1
