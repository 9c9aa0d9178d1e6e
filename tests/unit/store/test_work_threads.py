"""The threads of a store work in order and side by side, end when told to or forgotten, and answer a loop."""

import asyncio
import gc
import threading
from functools import partial

import pytest

from steptrail.infrastructure.store.core.work_threads import WorkThreads
from steptrail.runtime.kernel.thread_calls import call_in_loop


def test_given_jobs_for_one_and_a_shutdown_then_all_are_done_in_order_and_no_more_are_taken() -> None:
    threads, done = WorkThreads("worker"), list[int]()
    for number in range(100):
        threads.put(partial(done.append, number))
    threads.shutdown()
    threads.shutdown()
    assert done == list(range(100))
    with pytest.raises(RuntimeError, match="worker have been shut down"):
        threads.put(gc.collect)


def test_given_a_call_that_raises_then_its_future_raises_and_the_thread_goes_on() -> None:
    with WorkThreads("worker") as threads:
        failed, answered = threads.submit(int, "x"), threads.submit(int, "7")
        assert isinstance(failed.exception(), ValueError)
        assert answered.result() == 7


def test_given_three_threads_then_three_jobs_run_at_once() -> None:
    meeting = threading.Barrier(3)
    with WorkThreads("worker", 3) as threads:
        met = [threads.submit(meeting.wait, 60) for _ in range(3)]
        assert sorted(each.result() for each in met) == [0, 1, 2]


def test_what_was_put_off_is_done_once_when_no_job_comes() -> None:
    caught_up, done = threading.Semaphore(0), list[str]()

    def at_rest() -> None:
        done.append("caught up")
        caught_up.release()

    with WorkThreads("worker", at_rest=at_rest, rest=0.001) as threads:
        threads.put(partial(done.append, "job"))
        assert caught_up.acquire(timeout=60)
        assert not caught_up.acquire(timeout=0.01)
        threads.put(partial(done.append, "job"))
        assert caught_up.acquire(timeout=60)
    assert done == ["job", "caught up"] * 2


def test_threads_that_are_forgotten_end() -> None:
    threads = WorkThreads("forgotten", 3)
    for _ in range(3):
        threads.submit(int).result()
    running = [each for each in threading.enumerate() if each.name == "forgotten"]
    assert len(running) == 3
    del threads
    gc.collect()
    for thread in running:
        thread.join(60)
        assert not thread.is_alive()


def test_a_call_into_a_loop_that_is_closed_is_dropped() -> None:
    loop, heard = asyncio.new_event_loop(), list[str]()
    loop.close()
    call_in_loop(loop, heard.append, "too late")
    assert heard == []
