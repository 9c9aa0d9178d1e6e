"""The collector of cycles: it is off while a stream is folded, seldom while sessions run, and then as it was found."""

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.record import EMPTY_STREAM, Recorded
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.blobs import read_record
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.views.generation import Reached
from steptrail.infrastructure.views.projector import Projector
from steptrail.interfaces.python.explaining import explained
from steptrail.runtime.kernel.cancellation import cancel_and_wait
from steptrail.runtime.kernel.collector import collector_off, collector_seldom
from steptrail.runtime.kernel.history import history
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.testing import ScriptedModel, call
from steptrail.testing.store_contract import Noted, commit_of
from tests.views.counting import Counting


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether the collector was on at each record that was read."""
    states: list[bool] = []

    def noting(*arguments: Any) -> Any:
        states.append(gc.isenabled())
        if arguments[2] == 3:
            raise CorruptRecord(arguments[1], 3, arguments[3], "it is the third")
        return read_record(*arguments)

    monkeypatch.setattr("steptrail.infrastructure.store.core.reading.read_record", noting)
    gc.enable()  # a thread that another test has left may be folding
    yield states
    gc.enable()


async def read(events: int) -> bool:
    """Store events and read them; return whether the collector was on afterwards."""
    store = open_store("sqlite:///:memory:")
    try:
        await store.append("agent:a", EMPTY_STREAM, commit_of("c1", *(Noted() for _ in range(events))))
        await store.read("agent:a")
    except CorruptRecord:
        return gc.isenabled()
    finally:
        await store.close()
    return gc.isenabled()


@pytest.mark.parametrize("events", [2, 3], ids=["whole", "with a damaged record"])
async def test_given_a_collector_that_is_on_then_it_is_off_while_records_are_made_and_on_again(
    seen: list[bool], events: int
) -> None:
    assert await read(events) is True
    assert seen == [False] * events


async def test_given_a_service_that_turned_it_off_then_it_stays_off(seen: list[bool]) -> None:
    gc.disable()
    assert await read(2) is False
    assert seen == [False, False]


async def test_it_is_off_while_the_pages_of_a_stream_are_folded() -> None:
    seen: list[bool] = []

    def evolve_all(state: AgentState, records: Iterable[Recorded[AgentEvent]]) -> AgentState:
        seen.append(gc.isenabled())
        return AGENT.evolve_all(state, records)

    store = open_store("sqlite:///:memory:")
    agent = AgentBuilder("x").with_model(ScriptedModel(["done"])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "go", session="s")
        records = await trail.session("s").events()
    await store.append("agent:s", EMPTY_STREAM, commit_of("c1", *(record.event for record in records)))
    state, _ = await fold_stream(AGENT._replace(evolve_all=evolve_all), store, "agent:s")
    await store.close()
    assert state.version == len(records)
    assert seen == [False]
    assert gc.isenabled()


def read_models(store: RecorderEventStore) -> Coroutine[Any, Any, object]:
    nowhere: Any = None
    projector = Projector(store, nowhere, Counting(), nowhere)
    projector.reached = Reached()
    return projector.apply()


FOLDS: dict[str, Callable[[RecorderEventStore], Coroutine[Any, Any, object]]] = {
    "state": lambda store: fold_stream(AGENT, store, "agent:s"),
    "history": lambda store: history(AGENT, store, "agent:s"),
    "explanation": lambda store: explained(store, "agent:s", now=0),
    "read models": read_models,
}


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
async def test_it_is_on_while_a_fold_waits_for_the_store_because_its_loop_may_never_go_on(
    fold: Callable[[RecorderEventStore], Coroutine[Any, Any, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("sqlite:///:memory:")
    has_asked = asyncio.Event()

    async def silent(*_: object, **__: object) -> None:
        has_asked.set()
        await asyncio.Event().wait()

    for question in ("read", "snapshot", "last_position"):
        monkeypatch.setattr(store, question, silent)
    folding = asyncio.create_task(fold(store))
    await has_asked.wait()
    is_on = gc.isenabled()
    await cancel_and_wait(folding)
    await store.close()
    assert is_on


def thresholds_of_runs(count: int) -> list[int]:
    """Run sessions side by side; return the threshold inside of each, and after all."""
    seen: list[int] = []

    @tool
    async def look() -> str:
        """Look."""
        seen.append(gc.get_threshold()[0])
        await asyncio.sleep(0)
        return "looked"

    async def main() -> None:
        async with Steptrail.open("sqlite:///:memory:") as trail:
            agents = [
                AgentBuilder("x").with_model(ScriptedModel([call("look"), "done"])).with_tools(look).build()
                for _ in range(count)
            ]
            await asyncio.gather(*[trail.run(agent, "go", session=f"s{i}") for i, agent in enumerate(agents)])

    asyncio.run(main())
    return [*seen, gc.get_threshold()[0]]


@pytest.fixture
def threshold() -> Iterator[int]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield 700
    gc.set_threshold(*before)


def test_it_runs_seldom_while_a_session_runs_and_as_before_after_the_last(threshold: int) -> None:
    assert thresholds_of_runs(2) == [50_000, 50_000, threshold]


@pytest.mark.parametrize("chosen", [0, 100_000])
def test_a_service_that_has_it_still_more_seldom_keeps_that(threshold: int, chosen: int) -> None:
    del threshold
    gc.set_threshold(chosen)
    assert thresholds_of_runs(1) == [chosen, chosen]


def test_a_threshold_that_is_set_while_sessions_run_stays(threshold: int) -> None:
    with collector_seldom():
        gc.set_threshold(threshold + 1)
    assert gc.get_threshold()[0] == threshold + 1


def test_a_child_that_is_forked_while_it_is_off_has_it_as_it_was(threshold: int) -> None:
    with collector_off(), collector_seldom():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if gc.isenabled() and gc.get_threshold()[0] == threshold else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
