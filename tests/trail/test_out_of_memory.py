"""A process that finds no more memory for a moment goes on when it does: what works beside its runs has not ended."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel import hands
from steptrail.runtime.kernel.engine import Wake
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, NotTaken, Work
from steptrail.runtime.kernel.looking import Looking
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.room import Room
from steptrail.runtime.kernel.woken import Woken
from steptrail.runtime.kernel.worker import Worker
from tests.harness.mischievous_engine import Mischief, MischievousEngine
from tests.trail.workers import Desk, Place, ended, until

pytestmark = pytest.mark.usefixtures("often")


class Short:
    """A store that finds no memory for one kind of question, `times` times."""

    def __init__(self, store: EventStore, question: str, times: int) -> None:
        self._store, self._question, self.left = store, question, times

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)
        if name != self._question:
            return asked

        async def short(*given: Any, **more: Any) -> Any:
            if self.left > 0:
                self.left -= 1
                raise MemoryError
            return await asked(*given, **more)

        return short


async def test_a_worker_that_found_no_memory_for_a_look_looks_again(place: Place, desk: Desk) -> None:
    store, engine = open_store(place.url), place.engine()
    short: Any = Short(store, "index", 3)
    env, done = Environment(store=store), Counter[str]()

    def carry(row: RunSummary) -> Work:
        async def goes_on() -> None:
            done[row.session_id] += 1
            await Steptrail(env).session(row.session_id).resume(desk.agent())

        return goes_on

    looks = Environment(store=short)
    ours = Hands(env, carry, room=Room(1), grace=1.0)
    worker = Worker(ours, Looking(looks) if engine is None else Woken(looks, engine, ["agent:calc"]))
    async with Steptrail.open(place.url) as trail, worker:
        await until(lambda: not short.left)
        await trail.start(desk.agent(), "go", session="s")
        await ended(trail, "s")
    assert done == {"s": 1}
    if engine is not None:
        await engine.close()
    await store.close()


async def test_a_run_for_which_there_was_no_memory_is_tried_again(
    store_url: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 0.01)
    tried = list[str]()

    async def no_room() -> None:
        tried.append("s")
        raise MemoryError

    async with Steptrail.open(store_url) as trail:
        await trail.start(desk.agent(), "go", session="s")
        (row,) = await trail.due()
        ours = Hands(Environment(store=trail.store), lambda _: no_room, room=Room(1), grace=1.0)
        for _ in range(2):
            while await ours.rest_of(row):
                await asyncio.sleep(0.01)
            task = await ours.take(row)
            assert not isinstance(task, NotTaken)
            await task
    assert tried == ["s", "s"]


async def test_a_wake_for_which_there_was_no_memory_comes_again() -> None:
    mischief, told = Mischief(), list[str]()

    class Heard(MischievousEngine):
        async def wake(self, wake: Wake) -> None:
            told.append(wake.stream)

    async with Steptrail.open("sqlite:///:memory:") as trail:
        short: Any = Short(trail.store, "index", 1_000_000)
        ours = Hands(Environment(store=trail.store), lambda _: None, room=Room(1), grace=1.0)
        async with Worker(ours, Woken(Environment(store=short), Heard(mischief), ["agent:calc"])):
            await until(lambda: bool(mischief.handlers))
            ((woken, _),) = mischief.handlers
            await woken(Wake(stream="agent:s", topic="agent:calc"))
    assert told == ["agent:s"]
