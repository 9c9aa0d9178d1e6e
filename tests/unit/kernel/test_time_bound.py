"""A time limit around a part of a task, with a timer only where that part has to wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from steptrail.runtime.kernel.time_bound import TimeBound


async def timers_of(work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many timers are set while `work` is done."""
    loop, count = asyncio.get_running_loop(), 0
    call_at = loop.call_at

    def counted(*args: object, **kwargs: object) -> asyncio.TimerHandle:
        nonlocal count
        count += 1
        return call_at(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_at", counted)
        await work()
    return count


async def test_what_answers_at_once_needs_no_timer_and_what_waits_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once() -> int:
        return 1

    async def later() -> int:
        await asyncio.sleep(0)
        return 2

    assert await TimeBound(60).around(at_once) == 1
    assert await TimeBound(60).around(later) == 2
    assert await TimeBound(None).around(later) == 2
    assert await timers_of(lambda: TimeBound(60).around(at_once), monkeypatch) == 0
    assert await timers_of(lambda: TimeBound(60).around(later), monkeypatch) == 1


async def test_work_whose_time_is_up_is_cancelled_and_the_limit_says_so() -> None:
    limit, seen = TimeBound(0.001), list[str]()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("tidied up")

    with pytest.raises(TimeoutError):
        await limit.around(waits)
    assert limit.is_over
    assert seen == ["tidied up"]


async def test_work_that_answers_although_it_was_cancelled_has_answered() -> None:
    limit = TimeBound(0.001)

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "all the same"

    assert await limit.around(stubborn) == "all the same"
    assert limit.is_over


@pytest.mark.parametrize("rests", [False, True])
async def test_an_exception_of_the_work_passes_through(rests: bool) -> None:
    limit = TimeBound(60)

    async def fails() -> None:
        if rests:
            await asyncio.sleep(0)
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await limit.around(fails)
    assert not limit.is_over


async def test_a_cancelled_caller_cancels_the_work_and_is_not_told_of_a_timeout() -> None:
    limit, seen, begun = TimeBound(60), list[str](), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(limit.around(waits))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
    assert not limit.is_over


async def test_work_runs_in_the_task_of_the_caller_and_is_told_what_it_waited_for() -> None:
    tasks: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def asks() -> str:
        tasks.append(asyncio.current_task())
        asyncio.get_running_loop().call_soon(future.set_result, "told")
        told = await future
        tasks.append(asyncio.current_task())
        return told

    assert await TimeBound(60).around(asks) == "told"
    assert tasks == [asyncio.current_task()] * 2
