"""One call on a thread of its own."""

import asyncio
import threading

import pytest

from steptrail.runtime.kernel.thread_calls import run_in_thread

PATIENCE = 60.0


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


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), asyncio.CancelledError("no")])
async def test_what_a_call_raises_comes_to_who_waits_for_it(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(type(error), match="no"):
            await run_in_thread(fail, name="fails")


async def test_what_no_future_takes_comes_as_the_cause_of_another_error() -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeError) as raised:
            await run_in_thread(lambda: next(iter(())), name="ends")
    assert isinstance(raised.value.__cause__, StopIteration)
