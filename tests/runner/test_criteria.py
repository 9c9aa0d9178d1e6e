"""Every built-in criterion stops a real run, with its own stop reason and status; criteria of the service do too."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, Limits, StepsLimit
from steptrail.continuation import (
    CallableCriterion,
    ContinuationDecision,
    ContinuationEvaluation,
    ResponseContentCheck,
    StateView,
    TokenUsageLimit,
)
from steptrail.domain.agent.events import ContinuationEvaluated
from steptrail.domain.agent.evolve import initial
from steptrail.domain.inference import FinishReason
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.usage import Usage
from steptrail.testing import Reply, call, calls, say
from tests.runner.kit import HandClock, Run, agent_of, run, slowly

REQUEST, ALLOW, STOP, FORBID = (
    ContinuationDecision.REQUEST,
    ContinuationDecision.ALLOW,
    ContinuationDecision.STOP,
    ContinuationDecision.FORBID,
)
WORK = call("add", a=1, b=2)
Setting = Callable[[AgentBuilder], AgentBuilder]


def decider(ran: Run) -> str:
    assert ran.result.outcome is not None
    return ran.result.outcome.resolved_by


STOPS: list[tuple[Setting, list[Reply], tuple[str, str], str, int]] = [
    (lambda b: b, ["done"], ("completed", "completed"), "aggregate", 1),
    (lambda b: b.with_max_steps(0), [], ("completed", "steps_limit"), "StepsLimit", 0),
    (lambda b: b.with_max_steps(2), [WORK] * 3, ("completed", "steps_limit"), "StepsLimit", 2),
    (lambda b: b.with_max_tokens(30), [WORK] * 3, ("completed", "token_limit"), "TokenUsageLimit", 2),
    (lambda b: b.with_max_tokens(0), [], ("completed", "token_limit"), "TokenUsageLimit", 0),
    (
        lambda b: b.with_finish_reasons("tool_calls"),
        [WORK] * 3,
        ("completed", "finish_reason"),
        "FinishReasonCheck",
        1,
    ),
    (
        lambda b: b,
        [say("half an ans", finish_reason=FinishReason.LENGTH)],
        ("failed", "finish_reason"),
        "AnswerComplete",
        1,
    ),
    (
        lambda b: b,
        [say("", finish_reason=FinishReason.CONTENT_FILTER)],
        ("failed", "finish_reason"),
        "AnswerComplete",
        1,
    ),
    (lambda b: b, [call("fail")], ("failed", "error"), "ErrorPolicyCriterion", 1),
    (lambda b: b, [ValueError("no")], ("failed", "error"), "ErrorPolicyCriterion", 1),
]


@pytest.mark.parametrize(
    ("setting", "script", "ending", "by", "steps"),
    STOPS,
)
async def test_a_built_in_criterion_stops_the_run(
    setting: Setting, script: list[Reply], ending: tuple[str, str], by: str, steps: int
) -> None:
    ran = await run(setting(agent_of(script)).build())
    assert ran.ending == ending
    assert decider(ran) == by
    assert ran.result.state.step_count == steps
    assert ran.types.count("step.started") == ran.types.count("step.completed") == steps
    last = ran.all(ContinuationEvaluated)[-1]
    assert (last.step, last.should_continue, last.stop_reason.value) == (steps, False, ending[1])


async def test_every_criterion_votes_also_after_one_that_forbade() -> None:
    ran = await run(
        agent_of([call("fail")]).with_cumulative_timeout(60).with_finish_reasons("length").with_max_steps(1).build()
    )
    assert ran.result.outcome is not None
    assert [(each.criterion_class, each.decision.value) for each in ran.result.outcome.evaluations] == [
        ("UserStop", "allow"),
        ("ErrorPolicyCriterion", "forbid"),
        ("AnswerComplete", "allow"),
        ("StepsLimit", "forbid"),
        ("TokenUsageLimit", "allow"),
        ("ExecutionTimeLimit", "allow"),
        ("CumulativeExecutionTimeLimit", "allow"),
        ("FinishReasonCheck", "allow"),
        ("CrashLoopLimit", "allow"),
    ]


async def test_tokens_overshoot_by_one_step_and_no_more() -> None:
    replies = [calls(("add", {"a": 1, "b": 1}), usage=Usage(input=tokens)) for tokens in (9, 2, 5)]
    ran = await run(agent_of(replies).with_max_tokens(10).build())
    assert ran.ending == ("completed", "token_limit")
    assert (ran.result.usage.total, ran.result.state.step_count) == (11, 2)


@pytest.mark.parametrize("limits", [Limits(max_steps=1), Limits(max_tokens=1), Limits(max_steps=2, max_tokens=1)])
async def test_a_failed_run_at_a_limit_is_never_completed(limits: Limits) -> None:
    builder = agent_of([call("fail")]).with_error_policy(ErrorPolicy.retry_all(9)).with_limits(limits)
    ran = await run(builder.build())
    assert ran.result.status == "failed"
    assert ran.ending[1] in {"steps_limit", "token_limit"}


async def test_a_reply_cut_in_the_middle_of_its_calls_runs_none_of_them() -> None:
    cut = structs.replace(
        calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), finish_reason=FinishReason.LENGTH
    )
    stopped = await run(agent_of([cut]).build())
    assert stopped.ending == ("failed", "error")
    assert "tool.execution.started" not in stopped.types
    assert stopped.types.count("tool.call.cancelled") == 2
    (error,) = stopped.result.state.steps[0].errors
    assert error.error.type == "validation"
    again = await run(agent_of([cut, "done"]).with_error_policy(ErrorPolicy.retry_tool_errors(2)).build())
    assert again.ending == ("completed", "completed")
    assert again.shown == ["This call was not run: the reply was cut in the middle."] * 2


@pytest.mark.parametrize("finish_reason", [FinishReason.ERROR, FinishReason.PAUSED])
async def test_a_reply_broken_off_in_its_calls_is_judged_by_the_error_policy(finish_reason: FinishReason) -> None:
    broken = structs.replace(WORK, finish_reason=finish_reason)
    stopped = await run(agent_of([broken] * 3).build())
    assert (stopped.ending, stopped.result.state.step_count) == (("failed", "error"), 1)
    assert str(stopped.result.error).endswith(
        "broken off by the provider while it asked for tools, so none of them was run"
    )
    again = await run(agent_of([broken, WORK, "done"]).with_error_policy(ErrorPolicy.retry_all(2)).build())
    assert (again.ending, again.types.count("tool.execution.started")) == (("completed", "completed"), 1)


@pytest.mark.parametrize(
    ("seconds", "steps", "ending"),
    [
        (4.0, 3, ("completed", "time_limit")),
        (10.0, 1, ("completed", "time_limit")),
        (3.3, 4, ("completed", "time_limit")),
    ],
)
async def test_wall_time_stops_the_run_between_steps(seconds: float, steps: int, ending: tuple[str, str]) -> None:
    clock = HandClock()
    ran = await run(agent_of([slowly(clock, seconds, WORK)] * 9).with_timeout(10).build(), clock=clock)
    assert ran.ending == ending
    assert decider(ran) == "ExecutionTimeLimit"
    assert ran.result.state.step_count == steps


async def test_active_time_stops_the_run_and_the_wall_clock_stays_beside_it() -> None:
    clock = HandClock()
    builder = agent_of([slowly(clock, 4, WORK)] * 9).with_timeout(100).with_cumulative_timeout(10)
    ran = await run(builder.build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    assert decider(ran) == "CumulativeExecutionTimeLimit"
    assert ran.result.state.cumulative_execution_seconds == 12.0
    assert ran.result.outcome is not None
    vote = ran.result.outcome.get_evaluation_for("CumulativeExecutionTimeLimit")
    assert vote is not None
    assert vote.reason == "Cumulative execution time 12.0s exceeded limit 10s"


async def test_waiting_for_a_retry_takes_no_active_time() -> None:
    clock = HandClock()

    def slow_failure(request: object) -> str:
        clock.advance(2)
        raise ConnectionError("cut off")

    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(30))
    builder = agent_of([slow_failure, slowly(clock, 2, "done")]).with_error_policy(policy)
    ran = await run(builder.with_cumulative_timeout(10).with_timeout(None).build(), clock=clock)
    assert ran.ending == ("completed", "completed")
    assert ran.result.state.cumulative_execution_seconds == 4.0
    assert ran.result.state.elapsed_seconds == 34.0


class StopsAt:
    """A guard of the service that only decides."""

    is_guard = True

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def decide(self, state: StateView, /) -> ContinuationDecision:
        return FORBID if state.step_count >= self._steps else ALLOW


async def test_a_guard_of_the_service_says_guard() -> None:
    ran = await run(agent_of([WORK] * 5).with_criteria(StopsAt(2)).build())
    assert ran.ending == ("completed", "guard")
    assert decider(ran) == f"{__name__}.StopsAt"
    vote = ran.result.outcome and ran.result.outcome.get_evaluation_for(StopsAt)
    assert vote
    assert vote.reason == "StopsAt forbade continuation"


async def test_a_function_guards_or_drives() -> None:
    small = CallableCriterion(lambda s: s.usage.total < 20, name="budget")
    assert (await run(agent_of([WORK] * 5).with_criteria(small).build())).ending == ("completed", "guard")
    again = CallableCriterion(lambda s: REQUEST if s.step_count < 3 else STOP, name="thrice", is_guard=False)
    ran = await run(agent_of(["one", "two", "three", "four"]).with_criteria(again).build())
    assert (ran.ending, ran.result.output) == (("completed", "completed"), "three")


async def test_a_response_check_drives_the_run() -> None:
    check = ResponseContentCheck(lambda text: "DONE" not in text)
    ran = await run(agent_of(["thinking", "still thinking", "DONE"]).with_criteria(check).build())
    assert (ran.result.state.step_count, ran.ending) == (3, ("completed", "completed"))


async def test_a_nested_limit_is_not_overruled_by_a_request_beside_it() -> None:
    nested = ContinuationCriteria(StepsLimit(2), TokenUsageLimit(1_000), name="budget")
    drive = CallableCriterion(lambda _: REQUEST, name="more", is_guard=False)
    ran = await run(agent_of([WORK] * 5).with_criteria(nested, drive).build())
    assert ran.ending == ("completed", "steps_limit")
    assert decider(ran) == "budget"
    vote = ran.result.outcome and ran.result.outcome.get_evaluation_for("budget")
    assert vote
    assert vote.reason == "StepsLimit: Step limit reached: 2/2"


class Breaks:
    name = "breaks"

    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        if state.step_count == 0:
            return None
        return self._answer()  # type: ignore[return-value]


def boom() -> object:
    raise RuntimeError("boom")


def cancels_itself() -> object:
    raise asyncio.CancelledError


CANNOT_VOTE: list[Callable[[], object]] = [
    boom,
    cancels_itself,
    lambda: "yes",
    lambda: ContinuationEvaluation.from_decision(criterion_class="x", decision=ALLOW, reason="half \ud83d"),
    lambda: ContinuationEvaluation(criterion_class="x", decision=ALLOW, context={"n": float("nan")}),
]


@pytest.mark.parametrize(
    "answer",
    CANNOT_VOTE,
)
async def test_a_criterion_that_cannot_vote_fails_the_run_and_the_step_is_kept(answer: Callable[[], object]) -> None:
    ran = await run(agent_of([WORK, "done"]).with_criteria(Breaks(answer)).build())
    assert ran.ending == ("failed", "error")
    assert decider(ran) == "breaks"
    assert ran.shown == ["3"]
    vote = ran.result.outcome and ran.result.outcome.get_evaluation_for("breaks")
    assert vote
    assert vote.reason.startswith("Continuation evaluation failed: ")


async def test_a_criterion_in_another_one_that_cancels_itself_is_a_failure_with_the_name_of_it() -> None:
    inner = ContinuationCriteria.of(Breaks(cancels_itself))
    ran = await run(agent_of([WORK, "done"]).with_criteria(inner).build())
    assert ran.ending == ("failed", "error")
    vote = ran.result.outcome and ran.result.outcome.deciding_vote
    assert vote
    assert "cancelled itself" in str(vote.context)


async def test_what_is_to_end_the_process_is_no_vote() -> None:
    def interrupted(_: StateView) -> ContinuationDecision:
        raise KeyboardInterrupt

    criteria = ContinuationCriteria.of(CallableCriterion(interrupted, name="ctrl-c"))
    with pytest.raises(KeyboardInterrupt):
        criteria.votes(initial("s"))
