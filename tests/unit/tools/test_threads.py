"""A call on a thread that nobody else uses meanwhile."""

import asyncio
import threading

from steptrail.runtime.kernel.thread_calls import run_in_thread


async def test_a_result_for_a_future_that_was_cancelled_goes_nowhere() -> None:
    release = threading.Event()
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: noise.append(problem))
    future = run_in_thread(lambda: release.wait(30), name="waits")
    thread = next(t for t in threading.enumerate() if t.name == "waits")
    future.cancel()
    release.set()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    assert future.cancelled()
    assert noise == []


async def test_calls_one_after_another_share_a_thread_which_has_the_name_of_the_call() -> None:
    seen = [await run_in_thread(threading.current_thread, name=f"call-{number}") for number in range(20)]
    # Where a call comes before the thread of the last one is free again, it gets another.
    assert len(set(seen)) < len(seen)
    assert seen[-1].name == "call-19"


async def test_calls_at_the_same_time_have_a_thread_each_however_many_hang() -> None:
    meeting = threading.Barrier(40)
    await asyncio.gather(*(run_in_thread(lambda: meeting.wait(60), name="meets") for _ in range(40)))


async def test_a_thread_without_a_call_ends() -> None:
    thread = await run_in_thread(threading.current_thread, name="rests")
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert await run_in_thread(threading.current_thread, name="after") is not thread
