from typing import cast

import pytest

from steptrail.continuation import (
    CanDecideToContinue,
    CanExplainContinuation,
    ContinuationCriteria,
    ErrorPolicyCriterion,
    StateView,
    StopReason,
    ToolCallPresenceCheck,
)
from steptrail.errors import ErrorContext, ErrorHandlingDecision, ErrorPolicy, ErrorType
from tests.unit.continuation.fakes import ALLOW, CALLED, CLEAN, FORBID, FakeStep, after, error, failed

RETRY = ErrorPolicyCriterion.with_policy(ErrorPolicy.retry_tool_errors(3))
STOP = ErrorPolicyCriterion.with_policy(ErrorPolicy.stop_on_any_error())
IGNORE = ErrorPolicyCriterion.with_policy(ErrorPolicy.ignore_tool_errors())


@pytest.mark.acceptance("3.3-1")
def test_it_decides() -> None:
    assert isinstance(STOP, CanDecideToContinue)
    assert [STOP.decide(state) for state in (after(), after(CLEAN), after(failed()))] == [ALLOW, ALLOW, FORBID]


@pytest.mark.acceptance("3.3-2")
def test_it_explains() -> None:
    assert isinstance(STOP, CanExplainContinuation)
    for state in (after(), after(CLEAN), after(failed())):
        assert STOP.explain(state).decision is STOP.decide(state)


@pytest.mark.acceptance("3.3-3")
def test_it_forbids_when_the_policy_says_stop() -> None:
    vote = STOP.explain(after(CALLED, failed()))
    assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.ERROR)
    assert vote.reason == "Tool error after 1 consecutive failures (max: 0)"


@pytest.mark.acceptance("3.3-4")
def test_it_allows_when_the_policy_says_retry_or_ignore() -> None:
    retry = RETRY.explain(after(failed(), failed()))
    assert (retry.decision, retry.stop_reason, retry.reason) == (ALLOW, None, "Tool error, retrying (2/3)")
    ignore = IGNORE.explain(after(failed(), failed()))
    assert (ignore.decision, ignore.stop_reason, ignore.reason) == (ALLOW, None, "Tool error ignored by policy")


@pytest.mark.acceptance("3.3-5")
def test_its_explanation_has_the_type_and_the_counts() -> None:
    vote = RETRY.explain(after(failed(), CALLED, failed(), failed()))
    assert vote.context == {
        "errorType": "tool",
        "consecutiveFailures": 2,
        "totalFailures": 3,
        "maxRetries": 3,
        "handling": "retry",
        "toolName": "search",
    }


@pytest.mark.parametrize("error_type", list(ErrorType))
def test_it_sees_what_kind_of_error_it_was(error_type: ErrorType) -> None:
    policy = ErrorPolicy.retry_all()
    broken = failed(error(error_type, tool="search" if error_type is ErrorType.TOOL else None))
    vote = ErrorPolicyCriterion.with_policy(policy).explain(after(broken))
    assert vote.context["errorType"] == error_type.value
    assert vote.reason == f"{error_type.value.capitalize()} error, retrying (1/5)"


def test_the_type_is_shown_as_the_wire_value_with_a_capital() -> None:
    limited = after(failed(error(ErrorType.RATE_LIMIT)))
    assert IGNORE.explain(limited).reason == "Rate_limit error after 1 consecutive failures (max: 0)"


@pytest.mark.parametrize("state", [after(), after(CLEAN), after(failed(), failed(), CLEAN)])
def test_it_always_votes(state: StateView) -> None:
    vote = STOP.explain(state)
    assert (vote.decision, vote.reason, vote.stop_reason) == (ALLOW, "No errors present", None)
    counts = {"consecutiveFailures": 0, "totalFailures": 2, "maxRetries": 0}
    of_before = {"errorType": "unknown", **counts, "handling": "ignore", "toolName": None}
    assert vote.context == (of_before if state.total_failures else {})


def test_retries_that_are_used_up_are_their_own_reason() -> None:
    vote = RETRY.explain(after(failed(), failed(), failed()))
    assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.RETRY_LIMIT)
    assert vote.reason == "Tool error after 3 consecutive failures (max: 3)"
    assert vote.context["handling"] == "stop"
    assert vote.context["configuredHandling"] == "retry"


def test_a_retry_that_was_never_granted_is_used_up_at_once() -> None:
    vote = IGNORE.explain(after(failed(error(ErrorType.TIMEOUT))))
    assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.RETRY_LIMIT)


@pytest.mark.parametrize("failures", [1, 3])
def test_a_permanent_error_is_an_error_and_not_a_used_up_retry(failures: int) -> None:
    wrong_key = failed(error(ErrorType.RATE_LIMIT, retryable=False))
    vote = RETRY.explain(after(*[wrong_key] * failures))
    assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.ERROR)
    assert (vote.context["handling"], vote.context["configuredHandling"]) == ("stop", "retry")


@pytest.mark.parametrize("criterion", [STOP, RETRY, IGNORE])
@pytest.mark.parametrize("steps", [(), (CLEAN,), (failed(),), (failed(),) * 3])
def test_no_text_is_made_before_somebody_reads_it(criterion: ErrorPolicyCriterion, steps: tuple[FakeStep, ...]) -> None:
    assert criterion.explain(after(*steps)).given_reason is None


def test_a_granted_retry_carries_the_run_on_after_a_failed_model_call() -> None:
    group = ContinuationCriteria(ErrorPolicyCriterion(ErrorPolicy.retry_all()), ToolCallPresenceCheck())
    model_failed = failed(error(ErrorType.MODEL, tool=None), tool_calls=False)
    assert group.can_continue(after(model_failed)) is True
    assert group.can_continue(after(model_failed, CLEAN)) is False


class Unlucky:
    def resolve(self, state: StateView, /) -> ErrorContext:
        return ErrorContext(type=ErrorType.VALIDATION, consecutive_failures=1, total_failures=9)


def test_a_resolver_of_its_own_replaces_the_agents() -> None:
    policy = ErrorPolicy().with_validation_error_handling(ErrorHandlingDecision.IGNORE)
    vote = ErrorPolicyCriterion(policy, Unlucky()).explain(after())
    assert (vote.reason, vote.context["totalFailures"]) == ("Validation error ignored by policy", 9)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (None, "resolve() returned NoneType, not an ErrorContext"),
        (ErrorContext(type=cast("ErrorType", "network"), consecutive_failures=1), "type: Invalid enum value 'network'"),
        (ErrorContext(type=ErrorType.TOOL, consecutive_failures=-1), "consecutive_failures: Expected `int` >= 0"),
        (ErrorContext(type=ErrorType.TOOL, consecutive_failures=cast("int", 1.5)), "Expected `int`, got `float`"),
    ],
)
def test_what_no_policy_can_judge_is_not_taken_for_an_ignored_error(found: ErrorContext | None, wrong: str) -> None:
    class Mistaken:
        def resolve(self, state: StateView, /) -> ErrorContext:
            return cast("ErrorContext", found)

    criterion = ErrorPolicyCriterion(ErrorPolicy.retry_all(3), Mistaken())
    outcome = ContinuationCriteria(criterion, ToolCallPresenceCheck()).evaluate(after())
    assert (outcome.should_continue, outcome.stop_reason) == (False, StopReason.ERROR)
    assert wrong in outcome.evaluations[0].reason


def test_a_resolver_may_name_the_class_of_an_error_by_its_value() -> None:
    class Plain:
        def resolve(self, state: StateView, /) -> ErrorContext:
            return ErrorContext(type=cast("ErrorType", "rate_limit"), consecutive_failures=1)

    vote = ErrorPolicyCriterion(ErrorPolicy.retry_all(3), Plain()).explain(after())
    assert (vote.decision, vote.reason) == (ALLOW, "Rate_limit error, retrying (1/3)")
