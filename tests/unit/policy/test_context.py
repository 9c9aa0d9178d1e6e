import msgspec
import pytest

from steptrail.domain.json_value import JsonValue
from steptrail.errors import (
    AgentErrorContextResolver,
    Backoff,
    CanResolveErrorContext,
    ErrorContext,
    ErrorHandlingDecision,
    ErrorPolicy,
    ErrorType,
)
from tests.unit.continuation.fakes import CALLED, CLEAN, after, error, failed

RESOLVER = AgentErrorContextResolver()


@pytest.mark.acceptance("3.1-1")
def test_there_are_six_types_of_error_with_their_wire_values() -> None:
    assert [(kind.name, kind.value) for kind in ErrorType] == [
        ("TOOL", "tool"),
        ("MODEL", "model"),
        ("VALIDATION", "validation"),
        ("RATE_LIMIT", "rate_limit"),
        ("TIMEOUT", "timeout"),
        ("UNKNOWN", "unknown"),
    ]


@pytest.mark.acceptance("3.1-2")
def test_an_error_stops_is_retried_or_is_ignored() -> None:
    assert [(handling.name, handling.value) for handling in ErrorHandlingDecision] == [
        ("STOP", "stop"),
        ("RETRY", "retry"),
        ("IGNORE", "ignore"),
    ]


@pytest.mark.acceptance("3.1-3")
def test_the_context_of_no_error_counts_and_names_nothing() -> None:
    none = ErrorContext.none()
    assert (none.type, none.consecutive_failures, none.total_failures) == (ErrorType.UNKNOWN, 0, 0)
    assert (none.message, none.tool_name, none.metadata) == (None, None, {})


FULL = ErrorContext(
    type=ErrorType.RATE_LIMIT,
    consecutive_failures=2,
    total_failures=5,
    message="slow down",
    tool_name="search",
    metadata={"retryable": True, "retryAfter": 1.5},
)


@pytest.mark.acceptance("3.1-4")
def test_every_type_has_a_form_as_json() -> None:
    assert [ErrorType(kind.value) for kind in ErrorType] == list(ErrorType)
    assert [ErrorHandlingDecision(handling.value) for handling in ErrorHandlingDecision] == list(ErrorHandlingDecision)
    assert FULL.to_dict() == {
        "type": "rate_limit",
        "consecutiveFailures": 2,
        "totalFailures": 5,
        "message": "slow down",
        "toolName": "search",
        "metadata": {"retryable": True, "retryAfter": 1.5},
    }
    assert ErrorPolicy.retry_tool_errors(4).with_backoff(Backoff.linear(2, max_seconds=9, jitter=0.5)).to_dict() == {
        "onToolError": "retry",
        "onModelError": "stop",
        "onValidationError": "retry",
        "onRateLimitError": "retry",
        "onTimeoutError": "retry",
        "onUnknownError": "stop",
        "maxRetries": 4,
        "backoff": {"kind": "linear", "baseSeconds": 2.0, "maxSeconds": 9.0, "jitter": 0.5},
    }


@pytest.mark.parametrize("context", [FULL, ErrorContext.none()], ids=["full", "none"])
def test_a_context_reads_back(context: ErrorContext) -> None:
    assert ErrorContext.from_dict(context.to_dict()) == context
    assert msgspec.json.decode(msgspec.json.encode(context), type=ErrorContext) == context


@pytest.mark.parametrize("data", [{}, {"type": None}, {"type": "bad luck"}, {"type": "tool", "totalFailures": -1}])
def test_a_context_without_a_proper_type_or_count_is_refused(data: dict[str, JsonValue]) -> None:
    with pytest.raises(ValueError, match=r"needs 'type'|Invalid enum value|Expected `int` >= 0"):
        ErrorContext.from_dict(data)


def test_only_a_clear_no_makes_an_error_permanent() -> None:
    def permanent(metadata: dict[str, JsonValue]) -> bool:
        return ErrorContext(type=ErrorType.MODEL, metadata=metadata).is_permanent

    assert permanent({"retryable": False}) is True
    assert permanent({"retryable": True}) is False
    assert permanent({"retryable": None}) is False
    assert permanent({}) is False


def test_the_resolver_of_agents_is_a_resolver() -> None:
    assert isinstance(RESOLVER, CanResolveErrorContext)


def test_before_the_first_step_nothing_has_failed() -> None:
    assert RESOLVER.resolve(after()) == ErrorContext.none()


def test_what_one_writes_into_the_context_of_no_error_is_seen_by_no_other() -> None:
    RESOLVER.resolve(after()).metadata["scribbled"] = True
    assert RESOLVER.resolve(after()) == ErrorContext.none()


def test_after_a_clean_step_there_is_no_error_and_the_total_stays_true() -> None:
    assert RESOLVER.resolve(after(failed(), failed(), CLEAN)) == ErrorContext(type=ErrorType.UNKNOWN, total_failures=2)


def test_the_first_failing_tool_call_describes_the_step() -> None:
    broken = failed(
        error(ErrorType.MODEL, "bad gateway", tool=None),
        error(ErrorType.TIMEOUT, "took too long", tool="crawl", retry_after=2.5),
        error(ErrorType.TOOL, "no such order", tool="search"),
    )
    assert RESOLVER.resolve(after(failed(), CALLED, broken)) == ErrorContext(
        type=ErrorType.TIMEOUT,
        consecutive_failures=1,
        total_failures=2,
        message="took too long",
        tool_name="crawl",
        metadata={"retryable": True, "retryAfter": 2.5, "errorClass": "builtins:LookupError"},
    )


def test_without_a_failing_tool_the_first_error_describes_the_step() -> None:
    broken = failed(
        error(ErrorType.RATE_LIMIT, "quota", tool=None, retryable=False), error(ErrorType.MODEL, "later", tool=None)
    )
    context = RESOLVER.resolve(after(broken))
    assert (context.type, context.message, context.tool_name) == (ErrorType.RATE_LIMIT, "quota", None)
    assert context.is_permanent is True


def test_a_step_with_several_failing_tools_is_one_failure() -> None:
    context = RESOLVER.resolve(after(failed(error(), error(), error())))
    assert (context.consecutive_failures, context.total_failures) == (1, 1)
