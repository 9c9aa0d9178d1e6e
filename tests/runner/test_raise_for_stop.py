"""`raise_for_stop` returns a run that came to its end by itself, and raises for every other one and says why."""

from collections.abc import Callable

import pytest

from steptrail import AgentBuilder, RunResult, tool
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ExecutionFailed, SteptrailError
from steptrail.testing import call
from tests.runner.kit import agent_of, run, trail_of


async def test_a_run_that_completed_is_returned() -> None:
    result = (await run(agent_of(["done"]).build())).result
    assert result.raise_for_stop() is result


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: agent_of([ConnectionError("no line")]), r"s:1 is failed \(error: .*\): ConnectionError: no line"),
        (lambda: agent_of([call("fail", why="no tea")]), r"s:1 is failed \(error: .*\): RuntimeError: .* in fail\)$"),
        (lambda: agent_of([call("add", a=1, b=2)]).with_max_steps(1), r"s:1 is completed \(steps_limit: .*1/1"),
    ],
    ids=["model", "tool", "limit"],
)
async def test_a_run_that_failed_or_met_a_limit_is_raised_with_why(make: Callable[[], AgentBuilder], says: str) -> None:
    result = (await run(make().build())).result
    with pytest.raises(ExecutionFailed, match=says) as raised:
        result.raise_for_stop()
    assert isinstance(raised.value, SteptrailError)


@tool(approval=True)
def pay() -> str:
    """Ask somebody first."""
    raise AssertionError("nobody approved it")


async def test_a_run_that_waits_is_paused_or_was_stopped_by_a_person_is_raised_as_what_it_is() -> None:
    async with trail_of() as trail:
        agent = agent_of([call("pay")]).with_tools(pay).build()
        results: dict[str, RunResult[JsonValue]] = {"waiting": await trail.run(agent, "go", session="s")}
        session = trail.session("s")
        results["paused"] = await session.pause(by="ops")
        results["user_requested"] = await session.stop(by="ops")
        for word, result in results.items():
            with pytest.raises(ExecutionFailed, match=rf"s:1 is .*{word}"):
                result.raise_for_stop()
