"""The thread of a store does its work in order, ends when it is told to or forgotten, and answers a loop."""

import asyncio
import gc
import threading
from functools import partial

import pytest

from steptrail.infrastructure.store.work_thread import Unbroken, WorkThread, call_in_loop


def test_given_jobs_and_a_shutdown_then_all_are_done_in_order_and_no_more_are_taken() -> None:
    thread, done = WorkThread("worker"), list[int]()
    for number in range(100):
        thread.put(partial(done.append, number))
    thread.shutdown()
    thread.shutdown()
    assert done == list(range(100))
    with pytest.raises(RuntimeError, match="worker has been shut down"):
        thread.put(gc.collect)


def test_given_a_call_that_raises_then_its_future_raises_and_the_thread_goes_on() -> None:
    with WorkThread("worker") as thread:
        failed, answered = thread.submit(int, "x"), thread.submit(int, "7")
        assert isinstance(failed.exception(), ValueError)
        assert answered.result() == 7


def test_a_thread_that_is_forgotten_ends() -> None:
    thread = WorkThread("forgotten")
    thread.submit(int).result()
    (running,) = (each for each in threading.enumerate() if each.name == "forgotten")
    del thread
    gc.collect()
    running.join(10)
    assert not running.is_alive()


def test_whoever_waits_for_an_unbroken_future_and_is_cancelled_is_cancelled_when_it_has_ended() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []
        future: Unbroken[None] = Unbroken()

        async def wait() -> None:
            try:
                await future
            except asyncio.CancelledError:
                said.append("cancelled" if future.done() else "too early")
                raise

        task = asyncio.create_task(wait())
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        assert not task.done()
        future.set_result(None)
        await asyncio.wait({task})
        assert task.cancelled()
        return said

    assert asyncio.run(scenario()) == ["cancelled"]


def test_a_call_into_a_loop_that_is_closed_is_dropped() -> None:
    loop, heard = asyncio.new_event_loop(), list[str]()
    loop.close()
    call_in_loop(loop, heard.append, "too late")
    assert heard == []
