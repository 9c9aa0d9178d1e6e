"""A blocking trail that ends while other threads come to it: each of them hears of it, and none waits for ever."""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType

import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError, StoreUnavailable
from steptrail.infrastructure.portal import Portal
from steptrail.infrastructure.store.core.event_store import RecorderEventStore

PATIENCE = 60.0


def in_a_thread(work: Callable[[], object]) -> Future[object]:
    """Begin something in a thread that may be left behind."""
    future: Future[object] = Future()

    def done() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=done, daemon=True).start()
    return future


async def endless() -> None:
    await asyncio.Event().wait()


def test_given_a_loop_that_is_ending_then_what_comes_in_is_refused_and_does_not_wait_for_ever() -> None:
    portal, works, is_cut_off, may_end = Portal(), threading.Event(), threading.Event(), threading.Event()

    async def slow_to_end() -> None:
        works.set()
        try:
            await endless()
        finally:
            is_cut_off.set()
            await asyncio.to_thread(may_end.wait, PATIENCE)

    running = in_a_thread(lambda: portal.call(slow_to_end()))
    assert works.wait(PATIENCE)
    closings = [in_a_thread(portal.close) for _ in range(2)]
    assert is_cut_off.wait(PATIENCE)
    late = in_a_thread(lambda: portal.call(endless()))
    may_end.set()
    for closing in closings:
        closing.result(PATIENCE)
    with pytest.raises(StoreUnavailable, match="the trail was closed while this ran"):
        running.result(PATIENCE)
    with pytest.raises(StoreUnavailable, match="the trail is closed"):
        late.result(PATIENCE)


def test_given_a_store_that_cannot_be_closed_then_the_loop_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    trail = Steptrail.open_sync("sqlite:///:memory:")
    close = RecorderEventStore.close

    async def close_and_fail(self: RecorderEventStore) -> None:
        await close(self)
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(RecorderEventStore, "close", close_and_fail)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        trail.close()
    assert not [each.name for each in set(threading.enumerate()) - before if each.name == "steptrail-loop"]
    trail.close()
    with pytest.raises(StoreUnavailable, match="the trail is closed"):
        trail.runs()


@pytest.mark.parametrize(
    ("package", "module", "tells", "threads"),
    [
        ("gevent", "gevent.monkey", "is_module_patched", "threading"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_given_threads_that_are_not_real_ones_then_a_blocking_trail_is_refused_when_it_is_opened(
    package: str, module: str, tells: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[str] = []
    loaded = ModuleType(module)
    setattr(loaded, tells, replaced.__contains__)
    monkeypatch.setitem(sys.modules, module, loaded)
    Steptrail.open_sync("sqlite:///:memory:").close()
    replaced.append(threads)
    with pytest.raises(ConfigurationError, match=f"{package} has replaced the threads of this process"):
        Steptrail.open_sync("sqlite:///:memory:")
