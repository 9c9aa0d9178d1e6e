"""Tasks 3.4 and 4.4: what the builder puts into an agent, and what it leaves out."""

import pytest

from steptrail import AgentBuilder, ErrorPolicy, StopReason
from steptrail.continuation import CumulativeExecutionTimeLimit, ErrorPresenceCheck, ExecutionTimeLimit, RetryLimit
from steptrail.runtime.agent.agent import criteria_for
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.runner.kit import HandClock, agent_of, run, slowly


def builder() -> AgentBuilder:
    return AgentBuilder("plain").with_model(ScriptedModel(["hello"]))


def kinds(of: AgentBuilder) -> set[type]:
    agent = of.build()
    return {type(criterion) for criterion in criteria_for(agent.snapshot, agent.criteria).criteria}


@pytest.mark.acceptance("3.4-1")
@pytest.mark.parametrize("reply", [call("fail"), call("add", a="x", b=1), call("nobody"), RuntimeError("no line")])
def test_without_a_policy_an_agent_stops_on_any_error(reply: Reply) -> None:
    ended = run(agent_of([reply, "never said"]).build())
    assert ended.ending == ("failed", "error")
    assert ended.result.state.step_count == 1


@pytest.mark.acceptance("3.4-2")
def test_with_a_policy_an_agent_follows_it() -> None:
    script: list[Reply] = [calls(("fail", {}), ("add", {"a": 1, "b": 2})), "done"]
    ignoring = run(agent_of(script).with_error_policy(ErrorPolicy.ignore_tool_errors()).build())
    assert ignoring.ending == ("completed", "completed")
    retrying = run(agent_of([call("fail"), call("fail"), "x"]).with_error_policy(ErrorPolicy.retry_all(2)).build())
    assert retrying.ending == ("failed", "retry_limit")
    assert retrying.result.state.step_count == 2


@pytest.mark.acceptance("3.4-3")
def test_with_error_policy_returns_the_builder() -> None:
    agent = builder()
    assert agent.with_error_policy(ErrorPolicy.retry_all()) is agent


@pytest.mark.acceptance("3.4-4")
def test_no_error_presence_check_is_built_in() -> None:
    assert ErrorPresenceCheck not in kinds(builder())


@pytest.mark.acceptance("3.4-5")
def test_no_retry_limit_is_built_in() -> None:
    assert RetryLimit not in kinds(builder())


@pytest.mark.acceptance("4.4-1")
def test_without_a_word_an_agent_is_limited_by_wall_time() -> None:
    assert ExecutionTimeLimit in kinds(builder())
    assert CumulativeExecutionTimeLimit not in kinds(builder())
    clock = HandClock()
    ended = run(agent_of([slowly(clock, 300.0, call("add", a=1, b=2)), "never said"]).build(), clock=clock)
    assert (ended.result.stop_reason, ended.result.state.step_count) == (StopReason.TIME_LIMIT, 1)
    assert ended.result.outcome is not None
    assert ended.result.outcome.resolved_by == "ExecutionTimeLimit"


@pytest.mark.acceptance("4.4-2")
def test_with_cumulative_timeout_limits_an_agent_by_active_time() -> None:
    assert CumulativeExecutionTimeLimit in kinds(builder().with_cumulative_timeout(10))
    clock = HandClock()
    work = call("add", a=1, b=2)
    script: list[Reply] = [slowly(clock, 6.0, work), slowly(clock, 6.0, work), "never said"]
    ended = run(agent_of(script).with_cumulative_timeout(12).build(), clock=clock)
    assert (ended.result.stop_reason, ended.result.state.step_count) == (StopReason.TIME_LIMIT, 2)
    assert ended.result.outcome is not None
    assert ended.result.outcome.resolved_by == "CumulativeExecutionTimeLimit"


@pytest.mark.acceptance("4.4-3")
def test_with_cumulative_timeout_returns_the_builder() -> None:
    agent = builder()
    assert agent.with_cumulative_timeout(10) is agent
