"""Workers whose clock is hours from that of the server carry on what waits when its time has come, and do not spin."""

import asyncio

import pytest

from steptrail import Agent, ErrorPolicy, Steptrail
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.runtime.kernel.clock import SystemClock
from tests.runner.kit import agent_of


class ClockApart(SystemClock):
    """The clock of a computer that was set wrong."""

    def __init__(self, hours: float) -> None:
        self._hours = hours

    def utc(self) -> int:
        return super().utc() + round(self._hours * 3600e6)


def waiting(seconds: float) -> Agent:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(seconds, max_seconds=seconds))
    built = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy)
    return built.with_limits(Limits(longest_wait=0.01, timeout=None)).build()


@pytest.mark.parametrize("hours", [-5, 5])
async def test_a_wait_of_a_worker_whose_clock_is_wrong_costs_two_wakes_and_ends_in_time(
    postgres_url: str, hours: float
) -> None:
    engine, agent = ProcrastinateEngine(postgres_url, poll=0.05), waiting(3.0)
    opened = Steptrail.open(postgres_url, engine=engine, clock=ClockApart(hours))
    async with asyncio.timeout(90), opened as trail, trail.work(agent):
        await trail.start(agent, "go", session="s")
        while [row.status for row in await trail.runs()] != [ExecutionStatus.COMPLETED]:
            await asyncio.sleep(0.05)
        while not (reports := [each for each in (await engine.status()).workers if each.wakes]):
            await asyncio.sleep(0.05)
        assert reports[0].wakes <= 3, "one to begin, one to go on, and one of a sweep in between"
