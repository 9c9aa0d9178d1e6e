"""A blocking trail that ends while other threads come to it: each of them hears of it, and none waits for ever."""

import asyncio
import gc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async

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
    ("package", "module", "tells", "threads", "real"),
    [
        ("gevent", "gevent.monkey", "is_module_patched", "threading", "threadpool.apply(asyncio.run, [main()])"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread", "tpool.execute(asyncio.run, main())"),
    ],
)
def test_given_threads_that_are_not_real_ones_then_a_blocking_trail_is_refused_when_it_is_opened(
    package: str, module: str, tells: str, threads: str, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[str] = []
    loaded = ModuleType(module)
    setattr(loaded, tells, replaced.__contains__)
    monkeypatch.setitem(sys.modules, module, loaded)
    Steptrail.open_sync("sqlite:///:memory:").close()
    replaced.append(threads)
    with pytest.raises(ConfigurationError, match=f"{package} has replaced the threads of this process") as refused:
        Steptrail.open_sync("sqlite:///:memory:")
    assert real in str(refused.value)  # a loop in each green thread would meet that of another


async def test_given_a_caller_in_a_thread_of_asgiref_then_what_is_awaited_by_asgiref_does_not_wait_for_it() -> None:
    async def tool() -> int:
        return await sync_to_async(threading.get_ident)()  # as each await of Django's ORM does

    def view() -> bool:  # a sync one, as ASGI servers have Django call it
        portal = Portal()
        try:
            return portal.call(tool()) == portal.call(tool()) != threading.get_ident()  # a thread for each would stay
        finally:
            portal.close()

    async with ThreadSensitiveContext():
        assert await sync_to_async(view)()


def test_given_a_tracer_around_each_task_then_what_a_handler_of_a_signal_raises_waits_for_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As ddtrace does it: a coroutine of its own awaits the one that the loop is given."""
    make, has_ended = asyncio.BaseEventLoop.create_task, list[bool]()

    def traced(loop: asyncio.BaseEventLoop, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        async def around() -> object:
            return await work

        return make(loop, around())

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    async def slow_to_end() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        try:
            await endless()
        finally:
            await asyncio.sleep(0.2)
            has_ended.append(True)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", traced)
    before = signal.signal(signal.SIGUSR1, end)
    portal = Portal()
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.call(slow_to_end())
        assert has_ended
    finally:
        signal.signal(signal.SIGUSR1, before)
        portal.close()


def test_given_a_handler_that_raises_while_work_is_handed_over_then_it_is_cancelled_in_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_over, ended_in, loops = asyncio.BaseEventLoop.call_soon_threadsafe, list[str](), list[object]()

    def interrupted(loop: asyncio.BaseEventLoop, *call: Any, **more: Any) -> asyncio.Handle:
        handle = hand_over(loop, *call, **more)
        if not loops:
            loops.append(loop)
            has_begun.wait()
            raise KeyboardInterrupt  # as the handler of a signal does, which may run anywhere in here
        return handle

    async def work() -> None:
        has_begun.set()
        try:
            await endless()
        finally:
            await asyncio.sleep(0)  # as a run that stores its pause
            ended_in.append(threading.current_thread().name)

    has_begun, portal = threading.Event(), Portal()
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            portal.call(work())
        assert ended_in == ["steptrail-loop"]
    finally:
        portal.close()


@pytest.mark.filterwarnings("ignore:a blocking trail was dropped:ResourceWarning")
def test_given_a_handler_that_raises_while_the_thread_begins_then_that_is_what_is_raised_and_the_thread_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, begun = threading.Thread.start, list[threading.Thread]()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "steptrail-loop":
            begun.append(thread)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Steptrail.open_sync("sqlite:///:memory:")
    gc.collect()
    begun[0].join(PATIENCE)
    assert not begun[0].is_alive()


def test_given_a_loop_that_takes_no_task_then_the_caller_is_told_and_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("the tracer has failed")

    portal = Portal()
    with monkeypatch.context() as patched:
        patched.setattr(asyncio.BaseEventLoop, "create_task", refuse)
        work = endless()
        asked = in_a_thread(lambda: portal.call(work))
        with pytest.raises(RuntimeError, match="the tracer has failed"):
            asked.result(PATIENCE)
        work.close()
    portal.close()


def test_given_warnings_that_are_errors_then_the_thread_of_a_dropped_trail_ends_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[type[BaseException]] = []

    def hear(unraisable: "sys.UnraisableHookArgs") -> None:
        raised.append(unraisable.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", hear)
    before = set(threading.enumerate())
    trail = Steptrail.open_sync("sqlite:///:memory:")
    thread = next(each for each in set(threading.enumerate()) - before if each.name == "steptrail-loop")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del trail
        gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert set(raised) == {ResourceWarning}
