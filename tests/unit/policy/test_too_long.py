"""A request that is longer than the window of its model is told apart from any other refusal, by what providers say."""

import pytest

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.policy.too_long import is_too_long


def error(
    message: str = "no",
    *,
    kind: ErrorType = ErrorType.MODEL,
    code: str | None = None,
    status: int | None = 400,
    name: str = "openai:BadRequestError",
) -> ErrorInfo:
    return ErrorInfo(type=kind, error_class=name, message=message, code=code, status_code=status, retryable=False)


@pytest.mark.parametrize(
    "refusal",
    [
        error(code="context_length_exceeded"),
        error(code="exceed_context_size_error"),
        error(name="litellm.exceptions:ContextWindowExceededError"),
        error(name="anthropic:RequestTooLargeError", status=413),
        error("prompt is too long: 213462 tokens > 200000 maximum"),
        error("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
        error("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length"),
        error("This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
        error("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        error("Requested tokens (1500) exceed context window of 1024", status=None, name="builtins:ValueError"),
        error("Input is too long for requested model."),
    ],
)
def test_providers_say_in_many_ways_that_a_request_is_too_long(refusal: ErrorInfo) -> None:
    assert is_too_long(refusal)


@pytest.mark.parametrize(
    "refusal",
    [
        error("Invalid value for 'tools'"),
        error(code="invalid_api_key", status=401),
        error("prompt is too long for your tier", kind=ErrorType.RATE_LIMIT, status=429),
        error("the maximum context length could not be read", status=500),
        error("maximum context length", kind=ErrorType.TIMEOUT, status=None),
    ],
)
def test_other_refusals_are_not_taken_for_one(refusal: ErrorInfo) -> None:
    assert not is_too_long(refusal)
