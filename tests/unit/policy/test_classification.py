import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.policy.classification import FailureLink, classify

RATE_LIMIT = (ErrorType.RATE_LIMIT, True)
QUOTA = (ErrorType.RATE_LIMIT, False)
AGAIN = (ErrorType.MODEL, True)
NEVER = (ErrorType.MODEL, False)
TIMEOUT = (ErrorType.TIMEOUT, True)
VALIDATION = (ErrorType.VALIDATION, True)


def link(*names: str, status: int | None = None, code: str | None = None) -> FailureLink:
    return FailureLink(names=(*names, "builtins:Exception", "builtins:object"), status_code=status, code=code)


def verdict(*chain: FailureLink) -> tuple[ErrorType, bool]:
    found = classify(chain, ErrorType.UNKNOWN)
    return found.type, found.retryable


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:RateLimitError", RATE_LIMIT),
        ("openai._exceptions:RateLimitError", RATE_LIMIT),
        ("openai:InternalServerError", AGAIN),
        ("openai:APITimeoutError", TIMEOUT),
        ("openai:APIConnectionError", AGAIN),
        ("openai:APIResponseValidationError", AGAIN),
        ("openai:LengthFinishReasonError", VALIDATION),
        ("openai:ContentFilterFinishReasonError", NEVER),
        ("openai:BadRequestError", NEVER),
        ("openai:UnprocessableEntityError", NEVER),
        ("openai:NotFoundError", NEVER),
        ("openai:AuthenticationError", NEVER),
        ("openai:OAuthError", NEVER),
        ("openai:PermissionDeniedError", NEVER),
        ("openai:ConflictError", AGAIN),
        ("anthropic:RateLimitError", RATE_LIMIT),
        ("anthropic._exceptions:OverloadedError", AGAIN),
        ("anthropic._exceptions:ServiceUnavailableError", AGAIN),
        ("anthropic._exceptions:DeadlineExceededError", TIMEOUT),
        ("anthropic._exceptions:RequestTooLargeError", NEVER),
        ("anthropic:APITimeoutError", TIMEOUT),
        ("anthropic:APIConnectionError", AGAIN),
        ("anthropic:AuthenticationError", NEVER),
        ("google.genai.errors:ServerError", AGAIN),
        ("google.genai.errors:UnknownApiResponseError", AGAIN),
        ("litellm.exceptions:RateLimitError", RATE_LIMIT),
        ("litellm.exceptions:BudgetExceededError", QUOTA),
        ("litellm.exceptions:ServiceUnavailableError", AGAIN),
        ("litellm.exceptions:Timeout", TIMEOUT),
        ("litellm.exceptions:APIConnectionError", AGAIN),
        ("litellm.exceptions:ContextWindowExceededError", NEVER),
        ("litellm.exceptions:ContentPolicyViolationError", NEVER),
        ("litellm.exceptions:UnsupportedParamsError", NEVER),
        ("httpx:TimeoutException", TIMEOUT),
        ("httpx2:NetworkError", AGAIN),
        ("httpx2:ProtocolError", AGAIN),
        ("httpx:ProxyError", AGAIN),
        ("httpx2:DecodingError", AGAIN),
        ("httpx:InvalidURL", NEVER),
        ("httpx2:UnsupportedProtocol", NEVER),
        ("builtins:TimeoutError", TIMEOUT),
        ("builtins:ConnectionError", AGAIN),
        ("ssl:SSLError", AGAIN),
        ("ssl:SSLCertVerificationError", NEVER),
        ("socket:gaierror", AGAIN),
        ("json.decoder:JSONDecodeError", AGAIN),
        ("pydantic_core._pydantic_core:ValidationError", VALIDATION),
        ("steptrail.domain.errors:ConfigurationError", NEVER),
        ("steptrail.infrastructure.models.errors:ModelReplyInvalid", AGAIN),
        ("steptrail.infrastructure.models.errors:ModelFailed", AGAIN),
    ],
)
def test_a_class_is_known_by_its_name(name: str, expected: tuple[ErrorType, bool]) -> None:
    assert verdict(link(name)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, NEVER),
        (401, NEVER),
        (403, NEVER),
        (404, NEVER),
        (408, TIMEOUT),
        (409, AGAIN),
        (413, NEVER),
        (422, NEVER),
        (429, RATE_LIMIT),
        (500, AGAIN),
        (503, AGAIN),
        (504, TIMEOUT),
        (529, AGAIN),
        (200, (ErrorType.UNKNOWN, True)),
        (302, (ErrorType.UNKNOWN, True)),
        (600, (ErrorType.UNKNOWN, True)),
    ],
)
@pytest.mark.parametrize("name", ["httpx:HTTPStatusError", "google.genai.errors:ClientError", "shop.client:Refused"])
def test_a_status_speaks_where_the_class_does_not(name: str, status: int, expected: tuple[ErrorType, bool]) -> None:
    assert verdict(link(name, status=status)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("insufficient_quota", QUOTA),
        ("billing_error", QUOTA),
        ("context_length_exceeded", NEVER),
        ("exceed_context_size_error", NEVER),
        ("content_filter", NEVER),
        ("tool_use_failed", AGAIN),
    ],
)
def test_a_word_that_says_more_than_a_status_outranks_class_and_status(
    code: str, expected: tuple[ErrorType, bool]
) -> None:
    assert verdict(link("openai:InternalServerError", status=500, code=code)) == expected
    assert verdict(link("openai:RateLimitError", status=429, code=code)) == expected
    assert verdict(link("openai:BadRequestError", status=400, code=code)) == expected


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        ("api_error", AGAIN),
        ("server_error", AGAIN),
        ("overloaded_error", AGAIN),
        ("rate_limit_exceeded", RATE_LIMIT),
        ("RESOURCE_EXHAUSTED", RATE_LIMIT),
        ("timeout_error", TIMEOUT),
        ("invalid_api_key", NEVER),
        ("model_not_found", NEVER),
    ],
)
def test_a_status_outranks_a_word_that_only_stands_for_one(code: str, alone: tuple[ErrorType, bool]) -> None:
    """Ollama says `api_error` of a wrong key and of too many requests, Groq `rate_limit_exceeded` of a 413."""
    assert verdict(link("steptrail.infrastructure.models.errors:ModelFailed", code=code)) == alone
    assert verdict(link("openai:APIError", status=200, code=code)) == alone
    assert verdict(link("openai:AuthenticationError", status=401, code=code)) == NEVER
    assert verdict(link("openai:APIStatusError", status=413, code=code)) == NEVER
    assert verdict(link("openai:RateLimitError", status=429, code=code)) == RATE_LIMIT
    assert verdict(link("openai:InternalServerError", status=500, code=code)) == AGAIN


def test_the_most_derived_class_decides() -> None:
    assert verdict(link("openai:APITimeoutError", "openai:APIConnectionError")) == TIMEOUT
    assert verdict(link("litellm.exceptions:BudgetExceededError", "openai:BadRequestError")) == QUOTA
    assert verdict(link("mine:SlowModel", "openai:APITimeoutError", "openai:APIConnectionError")) == TIMEOUT


def test_a_class_outranks_its_status() -> None:
    assert verdict(link("anthropic:DeadlineExceededError", status=500)) == TIMEOUT


def test_a_name_is_matched_whole() -> None:
    unknown = (ErrorType.UNKNOWN, True)
    assert verdict(link("openai_fake:RateLimitError")) == unknown
    assert verdict(link("mine.openai:RateLimitError")) == unknown
    assert verdict(link("google.auth:ServerError")) == unknown
    assert verdict(link("openai:Client.RateLimitError")) == unknown


@pytest.mark.parametrize("default", list(ErrorType))
def test_what_nobody_knows_takes_the_default(default: ErrorType) -> None:
    assert classify([link("mine:Broken"), link("builtins:KeyError")], default) == (default, True, None)
    assert classify([], default) == (default, True, None)


def test_a_wrapper_we_do_not_know_does_not_hide_the_root_cause() -> None:
    chain = [link("framework:StepFailed"), link("framework:DriverFailed"), link("openai:RateLimitError", status=429)]
    assert classify(chain, ErrorType.MODEL) == (*RATE_LIMIT, 2)


def test_a_clients_catch_all_gives_way_to_what_it_wraps() -> None:
    assert verdict(link("litellm.exceptions:APIConnectionError"), link("openai:RateLimitError")) == RATE_LIMIT
    assert verdict(link("builtins:ConnectionError"), link("httpx2:ReadTimeout", "httpx2:TimeoutException")) == TIMEOUT
    assert verdict(link("builtins:TimeoutError"), link("openai:AuthenticationError")) == NEVER


def test_the_outermost_of_equals_decides() -> None:
    context = link("litellm.exceptions:Timeout"), link("openai:RateLimitError")
    assert classify(context, ErrorType.MODEL) == (*TIMEOUT, 0)
    quota = (
        link("anthropic:RateLimitError", status=429, code="billing_error"),
        link("httpx:HTTPStatusError", status=429),
    )
    assert verdict(*quota) == QUOTA


def test_outer_and_inner_agree_for_the_usual_chains() -> None:
    timeout = link("openai:APITimeoutError"), link("httpx2:ReadTimeout", "httpx2:TimeoutException")
    refused = link("openai:APIConnectionError"), link("httpx2:ConnectError", "httpx2:NetworkError")
    assert verdict(*timeout) == TIMEOUT
    assert verdict(*refused) == AGAIN
