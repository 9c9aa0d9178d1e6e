"""The clock of the test kit: three days go by in no time."""

from datetime import UTC, datetime, timedelta

import pytest

from steptrail import Steptrail
from steptrail.testing import ManualClock
from steptrail.workflow import RunOptions, Workflow

FRIDAY = datetime(2026, 3, 6, 12, 0, 0, 123456, tzinfo=UTC)


def test_it_stands_still_and_is_put_forward() -> None:
    clock = ManualClock(FRIDAY)
    began = clock.utc()
    assert (began, clock.monotonic()) == (1_772_798_400_123_456, began)
    clock.advance(1.5)
    clock.advance(timedelta(days=3))
    assert clock.utc() - began == (3 * 86_400 + 1) * 1_000_000 + 500_000
    clock.reach(began)
    assert clock.utc() > began


def test_one_that_runs_goes_on_by_itself() -> None:
    clock = ManualClock(FRIDAY, running=True)
    began = clock.utc()
    while clock.utc() == began:
        pass
    clock.advance(timedelta(days=1))
    assert clock.utc() > began + 86_400_000_000
    clock.reach(began + 2 * 86_400_000_000)
    assert clock.monotonic() >= began + 2 * 86_400_000_000


def test_it_is_not_set_back() -> None:
    with pytest.raises(ValueError, match="not set back"):
        ManualClock().advance(-1)


async def test_the_time_of_a_question_is_up_when_the_clock_says_so() -> None:
    flow = Workflow("ask", options=RunOptions(longest_wait=0)).human("ask", expires=86_400.0, on_timeout="skip").build()
    clock = ManualClock(FRIDAY)
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        assert (await trail.run(flow, session="q")).status == "waiting"
        assert (await trail.flow("q").resume(flow)).status == "waiting"
        clock.advance(timedelta(days=1))
        assert (await trail.flow("q").resume(flow)).status == "completed"
        assert {record.at for record in await trail.flow("q").events()} == {clock.utc() - 86_400_000_000, clock.utc()}


def test_the_blocking_twin_takes_it_too() -> None:
    with Steptrail.open_sync("sqlite:///:memory:", clock=ManualClock(FRIDAY)) as trail:
        trail.run(Workflow("n").noop("n").build(), session="n")
        assert {record.at for record in trail.flow("n").events()} == {1_772_798_400_123_456}
