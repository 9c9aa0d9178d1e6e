from collections.abc import Callable
from typing import Any

import pytest

from steptrail.continuation import (
    CanDecideToContinue,
    CanExplainContinuation,
    ContinuationDecision,
    CrashLoopLimit,
    CumulativeExecutionTimeLimit,
    ExecutionTimeLimit,
    StepsLimit,
    StopReason,
    TokenUsageLimit,
    ToolCallLimit,
)
from steptrail.domain.usage import Usage
from steptrail.errors import ConfigurationError
from tests.unit.continuation.fakes import ALLOW, CALLED, FORBID, FakeState, after, failed

Guard = StepsLimit | TokenUsageLimit | CrashLoopLimit | ExecutionTimeLimit | CumulativeExecutionTimeLimit


def steps(count: int) -> FakeState:
    return FakeState(steps=(CALLED,) * count)


def tokens(count: int) -> FakeState:
    return FakeState(usage=Usage(input=count))


def segments(count: int) -> FakeState:
    return FakeState(unproductive_segments=count)


def wall(seconds: float) -> FakeState:
    return FakeState(elapsed_seconds=seconds)


def active(seconds: float) -> FakeState:
    return FakeState(cumulative_execution_seconds=seconds)


@pytest.mark.parametrize(
    ("guard", "state", "reason"),
    [
        (StepsLimit(2), steps, StopReason.STEPS_LIMIT),
        (TokenUsageLimit(2), tokens, StopReason.TOKEN_LIMIT),
        (CrashLoopLimit(2), segments, StopReason.GUARD),
        (ExecutionTimeLimit(2), wall, StopReason.TIME_LIMIT),
        (CumulativeExecutionTimeLimit(2), active, StopReason.TIME_LIMIT),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_limit_allows_under_it_and_forbids_at_it(
    guard: Guard, state: Callable[[int], FakeState], reason: StopReason
) -> None:
    votes = [guard.explain(state(used)) for used in (0, 1, 2, 3)]
    assert [v.decision for v in votes] == [ALLOW, ALLOW, FORBID, FORBID]
    assert [v.stop_reason for v in votes] == [None, None, reason, reason]
    assert [v.given_reason for v in votes] == [None] * 4
    assert [guard.decide(state(used)) for used in (0, 1, 2, 3)] == [v.decision for v in votes]


@pytest.mark.parametrize(
    ("guard", "state", "text", "context"),
    [
        (StepsLimit(2), steps(1), "Steps under limit: 1/2", {"currentSteps": 1, "maxSteps": 2}),
        (StepsLimit(2), steps(2), "Step limit reached: 2/2", {"currentSteps": 2, "maxSteps": 2}),
        (TokenUsageLimit(9), tokens(8), "Tokens under limit: 8/9", {"totalTokens": 8, "maxTotalTokens": 9}),
        (TokenUsageLimit(9), tokens(11), "Token limit reached: 11/9", {"totalTokens": 11, "maxTotalTokens": 9}),
        (
            ExecutionTimeLimit(60),
            wall(1.234),
            "Execution time under limit: 1.23s/60.00s",
            {"elapsedSeconds": 1.234, "maxSeconds": 60},
        ),
        (
            ExecutionTimeLimit(0.5),
            wall(75.0),
            "Execution time limit reached: 75.00s/0.50s",
            {"elapsedSeconds": 75.0, "maxSeconds": 0.5},
        ),
        (
            CumulativeExecutionTimeLimit(10),
            active(9.96),
            "Cumulative execution time 10.0s under limit 10s",
            {"cumulativeSeconds": 9.96, "maxSeconds": 10},
        ),
        (
            CumulativeExecutionTimeLimit(1_000_000.0),
            active(1_000_000.04),
            "Cumulative execution time 1000000.0s exceeded limit 1000000s",
            {"cumulativeSeconds": 1_000_000.04, "maxSeconds": 1_000_000.0},
        ),
        (
            CumulativeExecutionTimeLimit(0.5),
            active(0.25),
            "Cumulative execution time 0.2s under limit 0.5s",
            {"cumulativeSeconds": 0.25, "maxSeconds": 0.5},
        ),
        (
            CrashLoopLimit(),
            segments(2),
            "No crash loop: 2/3 segments in a row without progress",
            {"unproductiveSegments": 2, "maxSegments": 3},
        ),
        (
            CrashLoopLimit(),
            segments(3),
            "Crash loop: 3/3 segments in a row without progress",
            {"unproductiveSegments": 3, "maxSegments": 3},
        ),
    ],
)
def test_a_limit_says_its_numbers(guard: Guard, state: FakeState, text: str, context: dict[str, object]) -> None:
    vote = guard.explain(state)
    assert vote.reason == text
    assert vote.context == context
    assert vote.criterion_class == type(guard).__name__


def test_a_limit_of_zero_forbids_before_the_first_step() -> None:
    assert StepsLimit(0).decide(after()) is FORBID
    assert TokenUsageLimit(0).decide(after()) is FORBID


def test_a_limit_on_calls_forbids_when_there_were_too_many_run_or_refused() -> None:
    def vote(calls: int, refused: int) -> ContinuationDecision:
        return ToolCallLimit(2).decide(FakeState(tool_call_count=calls, tool_calls_refused=refused))

    assert [vote(1, 0), vote(2, 0), vote(2, 1), vote(3, 0)] == [ALLOW, ALLOW, FORBID, FORBID]


def test_tokens_of_every_kind_count() -> None:
    used = FakeState(usage=Usage(input=1, output=2, cache_write=3, cache_read=4, reasoning=5))
    assert TokenUsageLimit(16).explain(used).context["totalTokens"] == 15


def test_failed_steps_are_steps() -> None:
    assert StepsLimit(2).decide(after(CALLED, failed())) is FORBID


def test_a_counter_of_its_own_replaces_the_states() -> None:
    assert StepsLimit(2, lambda _: 2).decide(after()) is FORBID
    assert TokenUsageLimit(2, lambda _: 2).decide(after()) is FORBID
    assert ExecutionTimeLimit(2, lambda _: 2.0).decide(after()) is FORBID
    assert CumulativeExecutionTimeLimit(2, lambda _: 2.0).decide(after()) is FORBID


@pytest.mark.parametrize("limit", [ExecutionTimeLimit, CumulativeExecutionTimeLimit])
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_is_positive(
    limit: type[ExecutionTimeLimit | CumulativeExecutionTimeLimit], seconds: float
) -> None:
    with pytest.raises(ConfigurationError, match=r"^Max seconds must be greater than zero\.$"):
        limit(seconds)


def test_a_count_is_not_negative() -> None:
    with pytest.raises(ConfigurationError, match="Max steps must not be negative, it is -1"):
        StepsLimit(-1)
    with pytest.raises(ConfigurationError, match="Max total tokens must not be negative, it is -1"):
        TokenUsageLimit(-1)
    with pytest.raises(ConfigurationError, match="Max segments must be greater than zero, it is 0"):
        CrashLoopLimit(0)


@pytest.mark.acceptance("4.2-1")
def test_the_cumulative_time_limit_explains_itself() -> None:
    limit = CumulativeExecutionTimeLimit(10)
    assert isinstance(limit, CanExplainContinuation)
    assert isinstance(limit, CanDecideToContinue)
    for seconds in (9.0, 10.0, 11.0):
        assert limit.explain(active(seconds)).decision is limit.decide(active(seconds))


@pytest.mark.acceptance("4.2-2")
def test_cumulative_time_over_the_limit_forbids() -> None:
    assert CumulativeExecutionTimeLimit(10).decide(active(10.5)) is FORBID
    assert CumulativeExecutionTimeLimit(10).decide(active(10.0)) is FORBID


@pytest.mark.acceptance("4.2-3")
def test_cumulative_time_under_the_limit_allows() -> None:
    assert CumulativeExecutionTimeLimit(10).decide(active(9.99)) is ALLOW


@pytest.mark.acceptance("4.2-4")
def test_the_explanation_of_the_cumulative_limit_has_the_time_and_the_limit() -> None:
    vote = CumulativeExecutionTimeLimit(8).explain(active(8.04))
    assert vote.context == {"cumulativeSeconds": 8.04, "maxSeconds": 8}
    assert vote.reason == "Cumulative execution time 8.0s exceeded limit 8s"


def test_wall_time_does_not_count_as_active_time() -> None:
    waited = FakeState(elapsed_seconds=3600.0, cumulative_execution_seconds=8.0)
    assert CumulativeExecutionTimeLimit(10).decide(waited) is ALLOW
    assert ExecutionTimeLimit(10).decide(waited) is FORBID


@pytest.mark.parametrize("limit", [StepsLimit, TokenUsageLimit, ToolCallLimit, CrashLoopLimit])
@pytest.mark.parametrize("number", ["3", None, float("nan"), 2.5, True])
def test_a_limit_that_is_no_whole_number_is_refused(limit: Callable[[Any], object], number: object) -> None:
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        limit(number)


@pytest.mark.parametrize("limit", [ExecutionTimeLimit, CumulativeExecutionTimeLimit])
@pytest.mark.parametrize("number", ["3", None, True])
def test_a_limit_on_time_that_is_no_number_is_refused(limit: Callable[[Any], object], number: object) -> None:
    with pytest.raises(ConfigurationError, match="must be a number"):
        limit(number)
