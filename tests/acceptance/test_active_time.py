"""Tasks 4.1 and 4.3: active time, in the information about a session and over its steps."""

import math
from dataclasses import replace

import pytest

from steptrail import ErrorPolicy
from steptrail.domain.agent.events import StepCompleted
from steptrail.domain.agent.info import StateInfo
from steptrail.domain.instants import to_datetime
from steptrail.testing import call
from tests.acceptance.test_time_limit_of_one_query import paused_for_an_hour
from tests.runner.kit import NOON, HandClock, Run, agent_of, run, slowly

BEGAN, LATER = to_datetime(NOON), to_datetime(NOON + 60_000_000)
INFO = StateInfo(id="s", started_at=BEGAN, updated_at=BEGAN, cumulative_execution_seconds=2.5)


async def three_steps() -> Run:
    """Steps of two, three and four seconds, the second of which fails."""
    clock = HandClock()
    script = [
        slowly(clock, 2.0, call("add", a=1, b=2)),
        slowly(clock, 3.0, call("fail")),
        slowly(clock, 4.0, "done"),
    ]
    return await run(agent_of(script).with_error_policy(ErrorPolicy.ignore_tool_errors()).build(), clock=clock)


@pytest.mark.acceptance("4.1-1")
async def test_the_information_as_a_dictionary_holds_the_active_seconds() -> None:
    assert INFO.to_dict()["cumulativeExecutionSeconds"] == 2.5
    assert (await three_steps()).result.state.info.to_dict()["cumulativeExecutionSeconds"] == 9.0


@pytest.mark.acceptance("4.1-2")
def test_reading_the_dictionary_restores_the_seconds() -> None:
    assert StateInfo.from_dict(INFO.to_dict()) == INFO


@pytest.mark.acceptance("4.1-3")
def test_adding_execution_time_adds_up() -> None:
    more = INFO.add_execution_time(1.5, at=LATER).add_execution_time(0.25, at=LATER)
    assert more == replace(INFO, cumulative_execution_seconds=4.25, updated_at=LATER)
    assert INFO.cumulative_execution_seconds == 2.5


@pytest.mark.acceptance("4.1-4")
def test_data_without_the_key_is_read_as_zero_seconds() -> None:
    older = {key: value for key, value in INFO.to_dict().items() if key != "cumulativeExecutionSeconds"}
    assert StateInfo.from_dict(older) == replace(INFO, cumulative_execution_seconds=0.0)


@pytest.mark.parametrize("broken", [{"id": None}, {"startedAt": 7}, {"cumulativeExecutionSeconds": "long"}])
def test_data_that_does_not_fit_is_refused(broken: dict[str, str | int | None]) -> None:
    with pytest.raises(ValueError, match=next(iter(broken))):
        StateInfo.from_dict({**INFO.to_dict(), **broken})


@pytest.mark.acceptance("4.3-1")
async def test_a_step_records_how_long_it_took() -> None:
    ended = await three_steps()
    assert [step.duration_seconds for step in ended.result.state.steps] == [2.0, 3.0, 4.0]
    assert [event.duration_seconds for event in ended.all(StepCompleted)] == [2.0, 3.0, 4.0]


@pytest.mark.acceptance("4.3-2")
async def test_the_active_time_of_a_run_is_the_sum_of_its_steps() -> None:
    state = (await three_steps()).result.state
    assert math.isclose(state.cumulative_execution_seconds, sum(step.duration_seconds for step in state.steps))
    assert state.cumulative_execution_seconds == 9.0


@pytest.mark.acceptance("4.3-3")
async def test_the_active_time_survives_a_pause_and_a_resume_from_the_log() -> None:
    state = (await paused_for_an_hour()).state
    assert [step.duration_seconds for step in state.steps] == [5.0, 3.0]
    assert state.info.cumulative_execution_seconds == 8.0
