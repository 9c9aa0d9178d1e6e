"""What must end is waited for through any number of cancellations, and the cancellation is raised after that."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.cancellation import Uncancellable, wait_through
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.run_stream import RunStream

PATIENCE = 60
"""Seconds until a test that would wait for ever fails instead."""


async def cancel_thrice(task: "asyncio.Task[None]") -> None:
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()


def test_a_task_that_waits_for_an_uncancellable_future_is_cancelled_when_that_is_done() -> None:
    async def scenario() -> list[str]:
        said: list[str] = []
        future: Uncancellable[None] = Uncancellable()

        async def wait() -> None:
            try:
                await future
            except asyncio.CancelledError:
                said.append("cancelled" if future.done() else "too early")
                raise

        task = asyncio.create_task(wait())
        await cancel_thrice(task)
        future.set_result(None)
        await asyncio.wait({task})
        assert task.cancelled()
        return said

    assert asyncio.run(scenario()) == ["cancelled"]


def test_work_is_waited_for_through_three_cancellations_and_one_is_handed_back() -> None:
    async def scenario() -> None:
        work: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        handed_back: list[asyncio.CancelledError | None] = []

        async def wait() -> None:
            handed_back.append(await wait_through(work))

        task = asyncio.create_task(wait())
        await cancel_thrice(task)
        assert not work.cancelled()
        work.set_result("stored")
        async with asyncio.timeout(PATIENCE):
            await task
        assert [type(each) for each in handed_back] == [asyncio.CancelledError]

    asyncio.run(scenario())


def test_a_task_that_was_cancelled_before_it_waits_still_waits_for_the_end() -> None:
    async def scenario() -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, work.set_result, None)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        assert await wait_through(work) is not None
        assert work.done()
        task.uncancel()

    asyncio.run(scenario())


def fails(work: "asyncio.Future[None]") -> None:
    work.set_exception(OSError("full"))


def is_cancelled(work: "asyncio.Future[None]") -> None:
    work.cancel()


@pytest.mark.parametrize("end", [fails, is_cancelled])
def test_without_a_cancellation_none_is_handed_back_whatever_the_work_came_to(
    end: "Callable[[asyncio.Future[None]], None]",
) -> None:
    async def scenario() -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(end, work)
        assert await wait_through(work) is None
        assert work.cancelled() or isinstance(work.exception(), OSError)
        assert await wait_through(work) is None  # also of what has ended before

    asyncio.run(scenario())


def test_of_several_the_first_to_end_is_enough_and_the_others_are_left_as_they_were() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        slow: asyncio.Future[None] = loop.create_future()
        quick: asyncio.Future[None] = loop.create_future()
        loop.call_soon(quick.set_result, None)
        assert await wait_through(slow, quick) is None
        assert not slow.done()
        assert not getattr(slow, "_callbacks", None)

    asyncio.run(scenario())


def test_a_time_that_is_up_ends_the_waiting_and_not_the_work() -> None:
    async def scenario() -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert await wait_through(work, timeout=0.01) is None
        assert not work.done()

    asyncio.run(scenario())


def test_a_caller_that_is_cancelled_while_it_leaves_a_stream_is_cancelled_once_the_run_has_ended() -> None:
    async def scenario() -> None:
        may_end, ended = asyncio.Event(), list[str]()

        async def work(_: Callable[[Sequence[Recorded[AgentEvent]]], None], __: OnUpdate) -> RunResult:
            try:
                await asyncio.Event().wait()
            finally:
                await may_end.wait()
                ended.append("the run")
            raise AssertionError("the run was to be cancelled")

        async def leave() -> None:
            async with RunStream(work):
                await asyncio.sleep(0)
            ended.append("the caller, unaware")

        leaving = asyncio.create_task(leave())
        for _ in range(3):
            await asyncio.sleep(0)
        await cancel_thrice(leaving)
        may_end.set()
        await asyncio.wait({leaving}, timeout=PATIENCE)
        assert leaving.cancelled()
        assert ended == ["the run"]

    asyncio.run(scenario())
