from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import msgspec
import pytest

from steptrail import AgentBuilder, Limits
from steptrail.continuation import ErrorPolicyCriterion, ErrorPresenceCheck
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.errors import Backoff, ConfigurationError, ErrorContext, ErrorHandlingDecision, ErrorPolicy, ErrorType
from tests.unit.continuation.fakes import CALLED, CLEAN, FakeStep, after, error, failed

BOGUS: Any = "bogus"
STOP, RETRY, IGNORE = ErrorHandlingDecision.STOP, ErrorHandlingDecision.RETRY, ErrorHandlingDecision.IGNORE


def failures(count: int, error_type: ErrorType = ErrorType.TOOL, *, retryable: bool = True) -> ErrorContext:
    return ErrorContext(type=error_type, consecutive_failures=count, metadata={"retryable": retryable})


def configured(policy: ErrorPolicy) -> list[ErrorHandlingDecision]:
    return [policy.handling_for(error_type) for error_type in ErrorType]


@pytest.mark.parametrize(
    ("policy", "handlings", "max_retries"),
    [
        (ErrorPolicy.stop_on_any_error(), [STOP, STOP, STOP, STOP, STOP, STOP], 0),
        (ErrorPolicy.retry_tool_errors(), [RETRY, STOP, RETRY, RETRY, RETRY, STOP], 3),
        (ErrorPolicy.retry_tool_errors(7), [RETRY, STOP, RETRY, RETRY, RETRY, STOP], 7),
        (ErrorPolicy.ignore_tool_errors(), [IGNORE, STOP, IGNORE, RETRY, RETRY, IGNORE], 0),
        (ErrorPolicy.retry_all(), [RETRY, RETRY, RETRY, RETRY, RETRY, RETRY], 5),
        (ErrorPolicy.retry_all(2), [RETRY, RETRY, RETRY, RETRY, RETRY, RETRY], 2),
    ],
)
def test_the_presets_are_as_documented(
    policy: ErrorPolicy, handlings: list[ErrorHandlingDecision], max_retries: int
) -> None:
    assert configured(policy) == handlings
    assert policy.max_retries == max_retries
    assert policy.backoff == Backoff.none()


def test_without_a_choice_a_policy_stops_on_any_error() -> None:
    assert ErrorPolicy() == ErrorPolicy.stop_on_any_error()


@pytest.mark.acceptance("3.2-1")
@pytest.mark.parametrize("error_type", list(ErrorType))
def test_stop_on_any_error_stops_on_every_type(error_type: ErrorType) -> None:
    assert ErrorPolicy.stop_on_any_error().evaluate(failures(1, error_type)) is STOP


@pytest.mark.acceptance("3.2-2")
def test_retry_tool_errors_retries_errors_of_tools() -> None:
    policy = ErrorPolicy.retry_tool_errors(3)
    assert [policy.evaluate(failures(count)) for count in (1, 2)] == [RETRY, RETRY]
    assert policy.evaluate(failures(1, ErrorType.MODEL)) is STOP


@pytest.mark.acceptance("3.2-3")
@pytest.mark.parametrize("max_retries", [1, 2, 3])
def test_a_policy_stops_when_the_failures_in_a_row_reach_its_maximum(max_retries: int) -> None:
    policy = ErrorPolicy.retry_tool_errors(max_retries)
    answers = [policy.evaluate(failures(count)) for count in range(1, 6)]
    assert answers == [RETRY] * (max_retries - 1) + [STOP] * (6 - max_retries)


Modifier = Callable[[ErrorPolicy, ErrorHandlingDecision], ErrorPolicy]
MODIFIERS: dict[ErrorType, Modifier] = {
    ErrorType.TOOL: ErrorPolicy.with_tool_error_handling,
    ErrorType.MODEL: ErrorPolicy.with_model_error_handling,
    ErrorType.VALIDATION: ErrorPolicy.with_validation_error_handling,
    ErrorType.RATE_LIMIT: ErrorPolicy.with_rate_limit_error_handling,
    ErrorType.TIMEOUT: ErrorPolicy.with_timeout_error_handling,
    ErrorType.UNKNOWN: ErrorPolicy.with_unknown_error_handling,
}


@pytest.mark.acceptance("3.2-4")
@pytest.mark.parametrize("error_type", list(ErrorType))
def test_a_modifier_changes_a_copy_in_one_place(error_type: ErrorType) -> None:
    before = ErrorPolicy.retry_all(4)
    changed = MODIFIERS[error_type](before, IGNORE)
    assert configured(changed) == [IGNORE if kind is error_type else RETRY for kind in ErrorType]
    assert changed.max_retries == 4
    assert before == ErrorPolicy.retry_all(4)


def test_the_number_of_retries_and_the_backoff_are_changed_in_a_copy() -> None:
    before = ErrorPolicy.retry_tool_errors(3)
    assert before.with_max_retries(9) == ErrorPolicy.retry_tool_errors(9)
    assert before.with_backoff(Backoff.linear()).backoff == Backoff.linear()
    assert before.with_backoff(Backoff.linear()).with_max_retries(1).backoff == Backoff.linear()
    assert before == ErrorPolicy.retry_tool_errors(3)


@pytest.mark.acceptance("3.2-5")
@pytest.mark.parametrize(
    "steps", [(), (CLEAN,), (CALLED,), (failed(),), (failed(), CLEAN), (CLEAN, failed(error(ErrorType.MODEL)))]
)
def test_the_default_policy_stops_exactly_where_error_presence_check_did(steps: tuple[FakeStep, ...]) -> None:
    with pytest.warns(DeprecationWarning, match="stop_on_any_error"):
        before = ErrorPresenceCheck()
    now = ErrorPolicyCriterion.with_policy(ErrorPolicy.stop_on_any_error())
    assert now.decide(after(*steps)) is before.decide(after(*steps))


def test_no_failure_is_ignored_by_every_policy() -> None:
    policies = (ErrorPolicy.stop_on_any_error(), ErrorPolicy.retry_tool_errors(0), ErrorPolicy.retry_all())
    assert [policy.evaluate(ErrorContext.none()) for policy in policies] == [IGNORE] * 3


def test_the_retries_of_ignore_tool_errors_are_inert_until_some_are_granted() -> None:
    policy = ErrorPolicy.ignore_tool_errors()
    assert policy.evaluate(failures(1, ErrorType.RATE_LIMIT)) is STOP
    assert policy.with_max_retries(2).evaluate(failures(1, ErrorType.RATE_LIMIT)) is RETRY
    assert policy.evaluate(failures(99)) is IGNORE


def test_what_fails_the_same_way_every_time_is_not_retried() -> None:
    assert ErrorPolicy.retry_all().evaluate(failures(1, ErrorType.MODEL, retryable=False)) is STOP
    assert ErrorPolicy.ignore_tool_errors().evaluate(failures(1, retryable=False)) is IGNORE


def test_a_negative_number_of_retries_is_refused_everywhere() -> None:
    with pytest.raises(ConfigurationError, match="max_retries"):
        ErrorPolicy.retry_all(-1)
    with pytest.raises(ConfigurationError, match="max_retries"):
        ErrorPolicy().with_max_retries(-1)
    with pytest.raises(ValueError, match="max_retries"):
        ErrorPolicy.from_dict({"maxRetries": -1})


PRESETS = [
    ErrorPolicy.stop_on_any_error(),
    ErrorPolicy.retry_tool_errors(),
    ErrorPolicy.ignore_tool_errors(),
    ErrorPolicy.retry_all().with_backoff(Backoff.exponential(0.5, max_seconds=8, jitter=0.25)),
]


@pytest.mark.parametrize("policy", PRESETS)
def test_a_policy_reads_back(policy: ErrorPolicy) -> None:
    assert ErrorPolicy.from_dict(policy.to_dict()) == policy
    assert msgspec.json.decode(msgspec.json.encode(policy), type=ErrorPolicy) == policy


def test_the_default_policy_is_spelt_out() -> None:
    assert msgspec.to_builtins(ErrorPolicy.stop_on_any_error()).keys() == set(ErrorPolicy.__struct_fields__)


def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(ValueError, match="onToolErrors"):
        ErrorPolicy.from_dict({"onToolErrors": "stop"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: ErrorPolicy.retry_all(-1),
        lambda: ErrorPolicy().with_max_retries(-1),
        lambda: ErrorPolicy().with_max_retries(2**64),
        lambda: ErrorPolicy().with_tool_error_handling(BOGUS),
        lambda: ErrorPolicy(max_retries=BOGUS),
        lambda: Backoff.linear(-1),
        lambda: Backoff(jitter=2),
        lambda: Limits(max_steps=-1),
        lambda: Limits(max_tokens=2**64),
        lambda: Limits(timeout=float("nan")),
        lambda: Limits(timeout=cast("Any", Decimal("sNaN"))),
        lambda: AgentBuilder("x").with_max_tokens(2**64),
        lambda: AgentBuilder("x").with_timeout(0),
    ],
)
def test_a_setting_that_cannot_be_is_one_line_that_names_it(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert "msgspec" not in str(refused.value)
    assert "not " in str(refused.value)


def test_a_stored_setting_that_cannot_be_is_damage_and_no_configuration() -> None:
    with pytest.raises(msgspec.ValidationError, match="max_steps"):
        msgspec.json.decode(
            '{"name":"x","model":{"driver":"d","model":"m"},"fingerprint":"f","limits":{"max_steps":-1}}',
            type=AgentSnapshot,
        )


def test_an_error_of_a_type_that_there_is_not_has_no_handling() -> None:
    unknown: Any = "network"
    with pytest.raises(ValueError, match="'network' is not a valid ErrorType"):
        ErrorPolicy.retry_all().evaluate(ErrorContext(type=unknown, consecutive_failures=1, total_failures=1))
