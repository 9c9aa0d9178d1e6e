"""One call on a thread of its own."""

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
