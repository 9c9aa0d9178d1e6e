"""Errors of the model from end to end: through a real server and the real driver into the log, and on by the policy."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from steptrail.domain.agent.events import (
    InferenceCompleted,
    InferenceFailed,
    InferenceStarted,
    RetryScheduled,
    StepCompleted,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.failures import ErrorType
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.result import RunResult
from steptrail.testing.model_script import ScriptedReply, answer, cut_off, not_json, overloaded, rate_limited
from steptrail.testing.model_server import ModelServer
from tests.processes.agents.site import SESSION
from tests.processes.stage import COMPLETED, Stage


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One server for all tests here, because it imports much; each gives it a script of its own."""
    with ModelServer([]) as started:
        yield started


def run(
    stage: Stage, server: ModelServer, script: Sequence[ScriptedReply], policy: ErrorPolicy
) -> tuple[RunResult, int]:
    """Run against the server; return the result, and how many requests the server saw."""

    async def scenario(url: str) -> RunResult:
        model = OpenAIModel("scripted", base_url=url)
        agent = AgentBuilder("errors").with_model(model).with_error_policy(policy).build()
        async with Steptrail.open(stage.url) as trail:
            try:
                return await trail.run(agent, "Go.", session=SESSION)
            finally:
                await model.close()

    server.play(script)
    return asyncio.run(scenario(server.url)), len(server.requests())


@pytest.mark.parametrize("failure", [overloaded(), cut_off(), not_json()], ids=["500", "cut", "not json"])
def test_retry_all_really_calls_a_second_time(stage: Stage, server: ModelServer, failure: ScriptedReply) -> None:
    result, requests = run(stage, server, [failure, answer("done")], ErrorPolicy.retry_all())
    assert (result.status.value, result.stop_reason, result.output) == ("completed", "completed", "done")
    assert requests == 2
    assert [len(stage.of(kind)) for kind in (InferenceStarted, InferenceFailed, InferenceCompleted)] == [2, 1, 1]
    assert [event.failures for event in stage.of(RetryScheduled)] == [1]
    assert [event.errors for event in stage.of(StepCompleted)] == [1, 0]


def test_the_default_policy_stops_at_the_first_error(stage: Stage, server: ModelServer) -> None:
    result, requests = run(stage, server, [overloaded(), answer("never asked for")], ErrorPolicy.stop_on_any_error())
    assert (result.status.value, result.stop_reason, requests) == ("failed", "error", 1)
    assert stage.of(RetryScheduled) == []


def test_retries_that_are_used_up_say_so(stage: Stage, server: ModelServer) -> None:
    script = [overloaded(), overloaded(), overloaded(), answer("never asked for")]
    result, requests = run(stage, server, script, ErrorPolicy.retry_all(3))
    assert (result.status.value, result.stop_reason, requests) == ("failed", "retry_limit", 3)
    assert [event.failures for event in stage.of(RetryScheduled)] == [1, 2]


def test_a_rate_limit_waits_as_long_as_the_provider_says(stage: Stage, server: ModelServer) -> None:
    script = [rate_limited(retry_after_ms="300"), answer("done")]
    result, _ = run(stage, server, script, ErrorPolicy.retry_all())
    assert result.output == "done"
    (failed,), (scheduled,) = stage.of(InferenceFailed), stage.of(RetryScheduled)
    assert (failed.error.type, failed.error.retry_after) == (ErrorType.RATE_LIMIT, 0.3)
    assert (scheduled.delay_seconds, scheduled.retry_after) == (0.3, 0.3)
    assert [event.until for event in stage.of(WaitStarted)] == [scheduled.due_at]
    assert instants_of_inferences(stage)[1] >= scheduled.due_at


def instants_of_inferences(stage: Stage) -> list[int]:
    return [record.at for record in stage.records() if isinstance(record.event, InferenceStarted)]


def test_a_crash_in_the_wait_for_a_retry_leaves_the_rest_of_it_to_the_next_process(
    stage: Stage, server: ModelServer
) -> None:
    for gate in ("model-0", "model-1"):
        stage.open(gate)
    server.play([rate_limited(retry_after_ms="1500"), answer("All done.")])
    killed = stage.perform("run", "over_http", {"url": server.url}, fault="after-append:2")
    scheduled = stage.of(RetryScheduled)
    assert (killed.code, len(stage.of(WaitStarted)), stage.of(WaitEnded)) == (-9, 1, [])
    resumed = stage.perform("resume", "over_http", {"url": server.url})
    assert len(server.requests()) == 2
    assert resumed.result == COMPLETED
    assert stage.of(RetryScheduled) == scheduled
    assert [event.reason for event in stage.of(WaitEnded)] == ["due"]
    assert len(stage.of(WaitStarted)) == 1
    assert instants_of_inferences(stage)[1] >= scheduled[0].due_at
