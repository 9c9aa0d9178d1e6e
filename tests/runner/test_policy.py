"""The error policy at work: what each preset does about failing tools and models, and how a retry waits."""

import pytest

from steptrail import AgentBuilder, ErrorPolicy, ToolEffect, tool
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    EvaluationsRecorded,
    InferenceFailed,
    RetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelRequest
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.agent.request import Requests
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.runner.kit import NOON, Crash, HandClock, again_on, agent_of, crash_at, run, trail_of


class HttpError(Exception):
    """What a client raises for a status."""

    def __init__(self, status: int, retry_after: str | None = None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = {} if retry_after is None else {"retry-after": retry_after}


class Wrapped(Exception):
    """A framework's own exception around another one."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("the call failed")
        self.__cause__ = cause


def limited() -> Exception:
    return HttpError(429)


TOOL, INVALID = call("fail"), call("add", a="x", b=1)
# An exception of no known class that comes out of a model call is the model's failure.
MODEL, RATE, TIMEOUT, UNKNOWN = ConnectionError("cut off"), limited(), TimeoutError("late"), RuntimeError("what")
BAD_REQUEST = HttpError(400)

GOES_ON = ("completed", "completed")
ERROR, USED_UP = ("failed", "error"), ("failed", "retry_limit")

STOP_ALL = ErrorPolicy.stop_on_any_error()
TOOLS = ErrorPolicy.retry_tool_errors(2)
IGNORE = ErrorPolicy.ignore_tool_errors()
ALL = ErrorPolicy.retry_all(2)


@pytest.mark.parametrize(
    ("policy", "failure", "once", "always", "steps"),
    [
        *((STOP_ALL, each, ERROR, ERROR, 1) for each in (TOOL, INVALID, MODEL, RATE, TIMEOUT, UNKNOWN, BAD_REQUEST)),
        *((TOOLS, each, GOES_ON, USED_UP, 2) for each in (TOOL, INVALID, RATE, TIMEOUT)),
        *((TOOLS, each, ERROR, ERROR, 1) for each in (MODEL, UNKNOWN, BAD_REQUEST)),
        *((IGNORE, each, GOES_ON, ("failed", "steps_limit"), 4) for each in (TOOL, INVALID)),
        *((IGNORE, each, ERROR, ERROR, 1) for each in (MODEL, UNKNOWN, BAD_REQUEST)),
        *((IGNORE, each, USED_UP, USED_UP, 1) for each in (RATE, TIMEOUT)),
        *((ALL, each, GOES_ON, USED_UP, 2) for each in (TOOL, INVALID, MODEL, RATE, TIMEOUT, UNKNOWN)),
        (ALL, BAD_REQUEST, ERROR, ERROR, 1),
    ],
)
async def test_each_preset_decides_about_each_failure(
    policy: ErrorPolicy, failure: Reply, once: tuple[str, str], always: tuple[str, str], steps: int
) -> None:
    builder = agent_of([failure, "done"]).with_error_policy(policy).with_max_steps(4)
    assert (await run(builder.build())).ending == once
    ran = await run(agent_of([failure] * 9).with_error_policy(policy).with_max_steps(4).build())
    assert ran.ending == always
    assert ran.result.state.step_count == steps


async def test_a_retried_model_error_is_a_second_call_and_the_run_completes() -> None:
    model = ScriptedModel([MODEL, "done"])
    ran = await run(AgentBuilder("x").with_model(model).with_error_policy(ErrorPolicy.retry_all()).build())
    assert len(model.requests) == 2
    assert ran.types.count("inference.failed") == ran.types.count("retry.scheduled") == 1
    assert ran.ending == GOES_ON
    assert ran.result.output == "done"
    assert [step.has_errors for step in ran.result.state.steps] == [True, False]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
async def test_max_retries_counts_failures_in_a_row(most: int) -> None:
    policy = ErrorPolicy.retry_tool_errors(most)
    assert (await run(agent_of([TOOL] * 9).with_error_policy(policy).build())).result.state.step_count == most
    # A good step in between starts the count anew.
    script: list[Reply] = [*[TOOL] * (most - 1), call("add", a=1, b=2), *[TOOL] * (most - 1), "done"]
    assert (await run(agent_of(script).with_error_policy(policy).build())).ending == GOES_ON


async def test_the_vote_says_what_was_wanted_and_what_became_of_it() -> None:
    ran = await run(agent_of([TOOL] * 9).with_error_policy(ErrorPolicy.retry_tool_errors(2)).build())
    assert ran.result.outcome is not None
    vote = ran.result.outcome.get_evaluation_for("ErrorPolicyCriterion")
    assert vote is not None
    assert vote.context == {
        "errorType": "tool",
        "consecutiveFailures": 2,
        "totalFailures": 2,
        "maxRetries": 2,
        "handling": "stop",
        "toolName": "fail",
        "configuredHandling": "retry",
    }
    assert vote.reason == "Tool error after 2 consecutive failures (max: 2)"


async def test_several_failing_tools_of_a_step_are_one_failure() -> None:
    both = calls(("fail", {"why": "first"}), ("fail", {"why": "second"}))
    ran = await run(agent_of([both, both, "done"]).with_error_policy(ErrorPolicy.retry_tool_errors(3)).build())
    assert ran.ending == GOES_ON
    assert ran.result.state.total_failures == 2
    assert [len(step.errors) for step in ran.result.state.steps] == [2, 2, 0]


@pytest.mark.parametrize(
    ("failure", "kind"), [(Wrapped(limited()), "rate_limit"), (Wrapped(TimeoutError("late")), "timeout")]
)
async def test_the_root_of_a_wrapped_error_is_what_counts(failure: Exception, kind: str) -> None:
    ran = await run(agent_of([failure, "done"]).with_error_policy(ErrorPolicy.retry_tool_errors(2)).build())
    assert ran.ending == GOES_ON
    assert ran.one(RetryScheduled).error_type == kind


async def test_an_unknown_tool_is_a_failed_call_that_the_model_is_told_of() -> None:
    ran = await run(agent_of([call("nope"), "done"]).with_error_policy(IGNORE).build())
    assert ran.shown == ["Error in tool call: there is no tool 'nope'; the tools are: add, fail"]
    assert "tool.execution.started" not in ran.types
    assert ran.ending == GOES_ON


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.none(), [0.0, 0.0, 0.0]),
        (Backoff.linear(10), [10.0, 20.0, 30.0]),
        (Backoff.exponential(10), [10.0, 20.0, 40.0]),
        (Backoff.exponential(10, max_seconds=15), [10.0, 15.0, 15.0]),
    ],
)
async def test_the_delay_of_each_retry_is_recorded_and_sat_out(backoff: Backoff, delays: list[float]) -> None:
    clock = HandClock()
    policy = ErrorPolicy.retry_all(9).with_backoff(backoff)
    ran = await run(agent_of([MODEL, MODEL, MODEL, "done"]).with_error_policy(policy).build(), clock=clock)
    assert ran.ending == GOES_ON
    retries = ran.all(RetryScheduled)
    assert [(retry.failures, retry.delay_seconds) for retry in retries] == list(enumerate(delays, 1))
    waits = [delay for delay in delays if delay]
    assert [wait.kind for wait in ran.all(WaitStarted)] == ["retry"] * len(waits)
    assert [wait.reason for wait in ran.all(WaitEnded)] == ["due"] * len(waits)
    assert clock.utc() == NOON + sum(round(delay * 1e6) for delay in delays)
    assert [retry.due_at for retry in retries] == [NOON + round(sum(delays[: n + 1]) * 1e6) for n in range(3)]


async def test_jitter_shortens_a_delay_and_what_was_drawn_is_recorded() -> None:
    policy = ErrorPolicy.retry_all(9).with_backoff(Backoff.linear(10, jitter=0.5))
    ran = await run(agent_of([MODEL, "done"]).with_error_policy(policy).build())
    delay = ran.one(RetryScheduled).delay_seconds
    assert 5.0 < delay <= 10.0
    assert ran.one(WaitStarted).until == NOON + round(delay * 1e6)


@pytest.mark.parametrize(("asked", "delay"), [("45", 45.0), ("3", 10.0)])
async def test_what_the_provider_asks_for_is_the_least_that_is_waited(asked: str, delay: float) -> None:
    policy = ErrorPolicy.retry_all(9).with_backoff(Backoff.linear(10, max_seconds=20))
    ran = await run(agent_of([HttpError(429, asked), "done"]).with_error_policy(policy).build())
    retry = ran.one(RetryScheduled)
    assert (retry.retry_after, retry.delay_seconds) == (float(asked), delay)


async def test_a_permanent_error_is_not_retried_and_says_error() -> None:
    model = ScriptedModel([BAD_REQUEST, "done"])
    ran = await run(AgentBuilder("x").with_model(model).with_error_policy(ErrorPolicy.retry_all(9)).build())
    assert ran.ending == ERROR
    assert len(model.requests) == 1
    assert "retry.scheduled" not in ran.types


async def test_a_crash_during_the_wait_leaves_the_rest_of_it_to_be_waited() -> None:
    policy = ErrorPolicy.retry_all(9).with_backoff(Backoff.linear(40))
    model = ScriptedModel([MODEL, "done"])
    agent = AgentBuilder("x").with_model(model).with_error_policy(policy).build()
    clock = HandClock()
    # The second commit is the one that begins the wait.
    async with trail_of(clock, crash_at("after-append", 2)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        session = trail.session("s")
        assert (await session.state()).status is ExecutionStatus.WAITING
        clock.advance(15)
        later = again_on(trail, clock).session("s", on_commit=lambda _: clock.advance(25))
        result = await later.resume(agent)
        assert (result.status, result.output) == ("completed", "done")
        events = [record.event for record in await session.events()]
    assert sum(isinstance(event, RetryScheduled) for event in events) == 1
    ended = [event.reason for event in events if isinstance(event, WaitEnded)]
    assert ended == ["due"]
    assert len(model.requests) == 2


async def test_a_resumed_run_keeps_the_policy_it_began_with_unless_it_is_given_another() -> None:
    def build(policy: ErrorPolicy) -> AgentBuilder:
        return agent_of([TOOL, TOOL, "done"]).with_error_policy(policy)

    async def main(new: ErrorPolicy | None) -> tuple[str, str | None]:
        clock = HandClock()
        async with trail_of(clock, crash_at("before-tool", 2)) as trail:
            with pytest.raises(Crash):
                await trail.run(build(ErrorPolicy.retry_tool_errors(2)).build(), "go", session="s")
            session = again_on(trail, clock).session("s")
            # The code says something else by now, and that alone changes nothing.
            result = await session.resume(build(ErrorPolicy.retry_tool_errors(9)).build(), error_policy=new)
            return result.status.value, result.stop_reason and result.stop_reason.value

    assert await main(None) == USED_UP
    assert await main(ErrorPolicy.retry_tool_errors(5)) == GOES_ON
    # Also the guards that vote on resume are the new policy's.
    assert await main(ErrorPolicy.stop_on_any_error()) == ERROR


@pytest.mark.parametrize(
    ("handling", "ending"),
    [
        (ErrorHandlingDecision.STOP, ERROR),
        (ErrorHandlingDecision.RETRY, GOES_ON),
        (ErrorHandlingDecision.IGNORE, GOES_ON),
    ],
)
async def test_one_kind_of_error_may_be_handled_by_itself(
    handling: ErrorHandlingDecision, ending: tuple[str, str]
) -> None:
    policy = ErrorPolicy.stop_on_any_error().with_max_retries(5).with_tool_error_handling(handling)
    assert (await run(agent_of([TOOL, "done"]).with_error_policy(policy).build())).ending == ending
    assert (await run(agent_of([MODEL, "done"]).with_error_policy(policy).build())).ending == ERROR


async def test_a_failed_tool_does_not_take_the_others_of_its_step_with_it() -> None:
    ran_with: list[int] = []

    @tool(effect=ToolEffect.READ)
    def note(number: int) -> int:
        """Write it down."""
        ran_with.append(number)
        if number == 2:
            raise ValueError("two")
        return number

    script: list[Reply] = [calls(("note", {"number": 1}), ("note", {"number": 2}), ("note", {"number": 3})), "done"]
    model = ScriptedModel(script)
    ran = await run(AgentBuilder("x").with_model(model).with_tools(note).build())
    assert sorted(ran_with) == [1, 2, 3]
    assert ran.ending == ERROR
    assert ran.shown == ["1", "Error in tool call: two", "3"]


async def test_the_decision_after_a_retry_names_nobody() -> None:
    ran = await run(agent_of([MODEL, "done"]).with_error_policy(ErrorPolicy.retry_all()).build())
    after_failure = ran.all(ContinuationEvaluated)[1]
    assert (after_failure.should_continue, after_failure.resolved_by) == (True, "aggregate")


async def test_what_the_policy_ignores_uses_up_no_retries() -> None:
    policy = ErrorPolicy.ignore_tool_errors().with_max_retries(3)
    ran = await run(agent_of([TOOL, TOOL, RATE, RATE, "done"]).with_error_policy(policy).build())
    assert ran.ending == GOES_ON
    assert [event.failures for event in ran.all(RetryScheduled)] == [1, 2]
    used_up = await run(agent_of([TOOL, RATE, TOOL, RATE, TOOL, RATE, "done"]).with_error_policy(policy).build())
    assert used_up.ending == USED_UP  # a failure that is ignored is no step that went well
    assert used_up.result.state.step_count == 6
    assert used_up.why.decided_by is not None
    assert used_up.why.decided_by.context["consecutiveFailures"] == 3


async def test_a_backoff_does_not_grow_by_what_was_ignored() -> None:
    policy = ErrorPolicy.ignore_tool_errors().with_max_retries(3).with_backoff(Backoff.exponential(1.0))
    ran = await run(agent_of([TOOL, TOOL, TOOL, TIMEOUT, "done"]).with_error_policy(policy).build())
    assert [event.delay_seconds for event in ran.all(RetryScheduled)] == [1.0]


async def test_what_fails_outside_of_the_model_and_its_tools_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    build = Requests.build

    def broken(requests: Requests, state: AgentState, agent: AgentSnapshot) -> ModelRequest:
        if state.total_failures == 0:
            raise LookupError("no such prompt")
        return build(requests, state, agent)

    monkeypatch.setattr(Requests, "build", broken)
    stopped = await run(agent_of(["done"]).build())
    assert stopped.ending == ERROR
    assert stopped.one(InferenceFailed).error.type is ErrorType.UNKNOWN
    assert stopped.why.decided_by is not None
    assert stopped.why.decided_by.context["errorType"] == "unknown"
    retried = ErrorPolicy().with_unknown_error_handling(ErrorHandlingDecision.RETRY).with_max_retries(2)
    assert (await run(agent_of(["nobody", "done"]).with_error_policy(retried).build())).result.output == "done"


@pytest.mark.acceptance("3.3-6")
async def test_errors_of_a_tool_the_model_and_a_rate_limit_are_told_apart_in_what_was_recorded() -> None:
    ran = await run(agent_of([TOOL, MODEL, RATE, "done"]).with_error_policy(ErrorPolicy.retry_all(4)).build())
    assert ran.ending == GOES_ON
    recorded = [vote.context["errorType"] for cast in ran.all(EvaluationsRecorded) for vote in policy_votes(cast)]
    assert recorded == ["tool", "model", "rate_limit", "unknown"]
    assert [scheduled.error_type for scheduled in ran.all(RetryScheduled)] == ["tool", "model", "rate_limit"]
    assert [[each.error.type for each in step.errors] for step in ran.result.state.steps] == [
        ["tool"],
        ["model"],
        ["rate_limit"],
        [],
    ]


def policy_votes(cast: EvaluationsRecorded) -> list[ContinuationEvaluation]:
    return [vote for vote in cast.votes if "errorType" in vote.context]


@pytest.mark.parametrize(
    ("policy", "status"), [(None, ExecutionStatus.FAILED), (ErrorPolicy.retry_all(3), ExecutionStatus.COMPLETED)]
)
async def test_a_policy_that_comes_with_a_resume_decides_from_there_on(
    policy: ErrorPolicy | None, status: ExecutionStatus
) -> None:
    @tool(approval=True)
    def order() -> str:
        """Order what needs a yes."""
        return "ordered"

    script: list[Reply] = [call("order"), RuntimeError("no line"), "Done."]
    agent = AgentBuilder("policy").with_model(ScriptedModel(script)).with_tools(order).build()
    async with trail_of() as trail:
        waiting = await trail.run(agent, "go", session="s")
        session = trail.session("s")
        await session.approve(waiting.state.open_approvals[0].id, by="ana")
        assert (await session.resume(agent, error_policy=policy)).status is status
