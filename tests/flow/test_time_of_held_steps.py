"""How long a held step waits for a word of a person: `step_timeout`."""

import pytest
from msgspec import structs

from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import CommandRejected
from steptrail.workflow import RunOptions, Workflow
from tests.runner.kit import HandClock, trail_of

DAY = 86_400.0


async def test_the_limit_of_a_month_is_told_to_the_second() -> None:
    clock = HandClock()
    options = RunOptions(pause_before=("a",), step_timeout=30 * DAY, longest_wait=0.0)
    async with trail_of(clock) as trail:
        await trail.run(Workflow("t").noop("a").build(), session="f", options=options)
        clock.advance(30 * DAY)
        await trail.flow("f").resume(Workflow("t").noop("a").build())
        why = await trail.flow("f").why()
    assert why.verdict.endswith("step_timeout is 2592000, and it was 2592000.000")


@pytest.mark.parametrize("longer", [3 * DAY, None])
async def test_a_step_that_is_given_more_time_on_a_resume_is_due_when_that_is_over(longer: float | None) -> None:
    clock, flow = HandClock(), Workflow("t").noop("a").build()
    options = RunOptions(pause_before=("a",), step_timeout=DAY, longest_wait=0.0)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=options)
        begun = clock.utc()
        await trail.flow("f").resume(flow, options=structs.replace(options, step_timeout=longer))
        clock.advance(2 * DAY)
        (row,) = await trail.runs()
        assert row.due_at == (None if longer is None else begun + round(longer * 1e6))
        assert [wait.due_at for wait in row.waits] == [row.due_at]
        assert await trail.due() == []
        state = await trail.flow("f").state()
        assert state.run is not None
        assert state.run.wait == WaitStarted(kind="step", until=row.due_at)


async def test_nobody_lets_a_node_go_on_whose_time_to_be_answered_is_over() -> None:
    clock, flow = HandClock(), Workflow("t").noop("a").build()
    options = RunOptions(pause_before=("a",), step_timeout=DAY, longest_wait=0.0)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=options)
        clock.advance(DAY)
        assert await trail.inbox() == []
        with pytest.raises(CommandRejected, match=r"the question about 'a' expired at 2027-01-16 08:00:00 UTC"):
            await trail.flow("f").step("a", "continue", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.TIME_LIMIT)
