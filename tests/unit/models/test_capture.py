import json
import ssl
import time

import httpx2
import msgspec
import openai
import pydantic
import pytest

from steptrail.domain.exception_words import MAX_MESSAGE
from steptrail.domain.failures import ErrorType
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.runtime.agent.capture import MAX_CAUSES, capture

REQUEST = httpx2.Request(
    "POST", "https://api.example.com/v1/chat/completions", headers={"authorization": "Bearer s3cret"}
)
NOW = 1_800_000_000.0


def response(status: int, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, request=REQUEST)


def rate_limit(**headers: str) -> openai.RateLimitError:
    return openai.RateLimitError("slow down", response=response(429, **headers), body=None)


def raised(exc: BaseException, *, cause: BaseException | None = None) -> BaseException:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("exc", "expected", "retryable"),
    [
        (rate_limit(), ErrorType.RATE_LIMIT, True),
        (openai.APITimeoutError(REQUEST), ErrorType.TIMEOUT, True),
        (openai.APIConnectionError(request=REQUEST), ErrorType.MODEL, True),
        (openai.InternalServerError("", response=response(500), body=None), ErrorType.MODEL, True),
        (openai.AuthenticationError("", response=response(401), body=None), ErrorType.MODEL, False),
        (openai.BadRequestError("", response=response(400), body=None), ErrorType.MODEL, False),
        (openai.APIStatusError("", response=response(408), body=None), ErrorType.TIMEOUT, True),
        (openai.APIResponseValidationError(response(200), None), ErrorType.MODEL, True),
        (openai.ContentFilterFinishReasonError(), ErrorType.MODEL, False),
        (httpx2.ReadTimeout("slow"), ErrorType.TIMEOUT, True),
        (httpx2.RemoteProtocolError("cut"), ErrorType.MODEL, True),
        (httpx2.HTTPStatusError("", request=REQUEST, response=response(429)), ErrorType.RATE_LIMIT, True),
        (httpx2.InvalidURL("x"), ErrorType.MODEL, False),
        (TimeoutError(), ErrorType.TIMEOUT, True),
        (ConnectionResetError(), ErrorType.MODEL, True),
        (ssl.SSLError(), ErrorType.MODEL, True),
        (json.JSONDecodeError("", "", 0), ErrorType.MODEL, True),
        (ModelReplyInvalid("no choices"), ErrorType.MODEL, True),
    ],
)
def test_the_installed_classes_are_the_ones_in_the_table(
    exc: BaseException, expected: ErrorType, retryable: bool
) -> None:
    info = capture(exc, default=ErrorType.UNKNOWN, now=NOW)
    assert (info.type, info.retryable) == (expected, retryable)
    assert info.error_class.endswith(f":{type(exc).__qualname__}")


def test_a_pydantic_error_is_validation_for_a_model_and_a_tool_error_for_a_tool() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(int).validate_python("x")
    assert capture(caught.value, default=ErrorType.MODEL, now=NOW).type is ErrorType.VALIDATION
    assert capture(caught.value, default=ErrorType.TOOL, now=NOW).type is ErrorType.TOOL


def wrap(inner: Exception, *, implicitly: bool = False, suppress: bool = False) -> None:
    try:
        raise inner
    except type(inner) as error:
        if suppress:
            raise RuntimeError("the driver failed") from None
        if implicitly:
            raise RuntimeError("the driver failed")  # noqa: B904  the implicit context is what is tested
        raise RuntimeError("the driver failed") from error


def test_the_root_cause_decides_whatever_wrapped_it() -> None:
    with pytest.raises(RuntimeError) as caught:
        wrap(rate_limit(retry_after="7"))
    info = capture(caught.value, default=ErrorType.MODEL, now=NOW)
    assert (info.type, info.error_class, info.retry_after) == (ErrorType.RATE_LIMIT, "openai:RateLimitError", 7.0)
    assert info.status_code == 429
    assert info.message == "the driver failed"
    assert info.causes == ("builtins:RuntimeError: the driver failed", "openai:RateLimitError: slow down")


def test_what_was_being_handled_counts() -> None:
    with pytest.raises(RuntimeError) as caught:
        wrap(httpx2.ReadTimeout("slow"), implicitly=True)
    assert capture(caught.value, default=ErrorType.MODEL, now=NOW).type is ErrorType.TIMEOUT


def test_what_was_suppressed_does_not_count() -> None:
    with pytest.raises(RuntimeError) as caught:
        wrap(httpx2.ReadTimeout("slow"), suppress=True)
    hidden = capture(caught.value, default=ErrorType.MODEL, now=NOW)
    assert (hidden.type, len(hidden.causes)) == (ErrorType.MODEL, 1)


def test_a_task_group_speaks_for_its_first_member() -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", [rate_limit(), ValueError("other")])
    info = capture(group, default=ErrorType.TOOL, now=NOW)
    assert (info.type, info.error_class) == (ErrorType.RATE_LIMIT, "openai:RateLimitError")


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (ConnectionError("the shop is away"), "ConnectionError: the shop is away"),
        (KeyError("card"), "KeyError: 'card'"),
        (TimeoutError(), "TimeoutError"),
        (ExceptionGroup("inner", [ValueError("bad"), ValueError("worse")]), "ValueError: bad"),
        (ValueError("password=hunter2"), "ValueError: password=…"),
    ],
)
def test_a_task_group_says_what_its_first_member_says(member: Exception, said: str) -> None:
    info = capture(ExceptionGroup("unhandled errors in a TaskGroup", [member]), default=ErrorType.TOOL, now=NOW)
    assert info.message == f"unhandled errors in a TaskGroup (1 sub-exception): {said}"


@pytest.mark.parametrize(
    ("cause", "expected", "error_class"),
    [
        (rate_limit(), ErrorType.RATE_LIMIT, "openai:RateLimitError"),
        (httpx2.ReadTimeout("slow"), ErrorType.TIMEOUT, "httpx2:ReadTimeout"),
        (httpx2.ConnectError("down"), ErrorType.TOOL, "builtins:LookupError"),
        (openai.AuthenticationError("", response=response(401), body=None), ErrorType.TOOL, "builtins:LookupError"),
        (ValueError("bad"), ErrorType.TOOL, "builtins:LookupError"),
        (None, ErrorType.TOOL, "builtins:LookupError"),
    ],
)
def test_a_tool_is_reclassified_only_by_a_rate_limit_or_a_timeout(
    cause: BaseException | None, expected: ErrorType, error_class: str
) -> None:
    exc = raised(LookupError("the catalogue is down"), cause=cause)
    info = capture(exc, default=ErrorType.TOOL, now=NOW)
    assert (info.type, info.error_class, info.retryable) == (expected, error_class, True)
    assert info.message == "the catalogue is down"


def test_an_exhausted_quota_is_not_retried() -> None:
    body: object = {"message": "no money", "type": "insufficient_quota", "code": "insufficient_quota"}
    exc = openai.RateLimitError("Error code: 429 - {...}", response=response(429), body=body)
    info = capture(exc, default=ErrorType.MODEL, now=NOW)
    assert (info.type, info.retryable, info.code) == (ErrorType.RATE_LIMIT, False, "insufficient_quota")
    assert info.message == "no money"


def test_a_code_that_repeats_the_status_gives_way_to_the_type() -> None:
    body: object = {"message": "too long", "type": "exceed_context_size_error", "code": 400}
    exc = openai.BadRequestError("", response=response(400), body=body)
    assert capture(exc, default=ErrorType.MODEL, now=NOW).code == "exceed_context_size_error"


def test_an_error_object_still_in_its_envelope_is_read() -> None:
    body: object = {"type": "error", "error": {"type": "billing_error", "message": "pay first"}}
    exc = openai.APIStatusError("Error code: 400", response=response(400), body=body)
    info = capture(exc, default=ErrorType.MODEL, now=NOW)
    assert (info.type, info.retryable, info.code, info.message) == (
        ErrorType.RATE_LIMIT,
        False,
        "billing_error",
        "pay first",
    )


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "20"}, 20.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "1500", "retry_after": "20"}, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "20"}, 20.0),
        ({"retry_after": "Fri, 15 Jan 2027 08:01:30 GMT"}, 90.0),
        ({"retry_after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "tomorrow"}, None),
        ({"retry_after": "1e300"}, None),
        ({"retry_after_ms": "1e300"}, None),
        ({"retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"}, None),
        ({}, None),
    ],
)
def test_what_the_provider_asked_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert capture(rate_limit(**headers), default=ErrorType.MODEL, now=NOW).retry_after == expected


@pytest.mark.parametrize("date", ["Fri Jan 15 08:01:30 2027", "Fri, 15 Jan 2027 08:01:30 -0000"])
def test_a_date_that_names_no_zone_is_in_utc_wherever_the_process_runs(
    date: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        found = capture(rate_limit(retry_after=date), default=ErrorType.MODEL, now=NOW).retry_after
    time.tzset()
    assert found == 90.0


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("GET https://x.example/v1?key=AIzaSyA12345 failed", "GET https://x.example/v1?key=… failed"),
        ("https://x.example/a?q=1&access_token=abc&b=2", "https://x.example/a?q=1&access_token=…&b=2"),
        ("cannot reach postgresql://ana:pw@db/x", "cannot reach postgresql://…@db/x"),
        ("sent Authorization: Bearer abcdefgh12345", "sent Authorization: …"),
        ("sent Authorization: Basic YW5hOnB3cHdwdw==", "sent Authorization: …"),
        ("no such host: host=db password=pw dbname=x", "no such host: host=db password=… dbname=x"),
        ("Illegal header value b'gsk_12345 6\\n'", "Illegal header value …"),
        ("no row with key=42", "no row with key=42"),
        ("Incorrect API key provided: sk-proj-abcdef123456.", "Incorrect API key provided: sk-…."),
        ("GET https://x.example/v1?q=shoes&page=2 failed", "GET https://x.example/v1?q=shoes&page=2 failed"),
    ],
)
def test_credentials_do_not_reach_the_log(text: str, kept: str) -> None:
    info = capture(raised(RuntimeError(text), cause=ValueError(text)), default=ErrorType.TOOL, now=NOW)
    assert info.message == kept
    assert info.causes == (f"builtins:RuntimeError: {kept}", f"builtins:ValueError: {kept}")


def test_headers_and_bodies_stay_behind() -> None:
    exc = openai.BadRequestError("bad", response=response(400), body={"message": "bad", "input": "private words"})
    recorded = msgspec.json.encode(capture(exc, default=ErrorType.MODEL, now=NOW)).decode()
    assert "s3cret" not in recorded
    assert "private words" not in recorded


def test_the_words_of_an_exception_that_has_a_body_and_no_response_stay() -> None:
    error = ValueError("no such row")
    error.body = "<html>"  # type: ignore[attr-defined]
    assert capture(error, default=ErrorType.TOOL, now=NOW).message == "no such row"


def test_a_long_message_is_cut() -> None:
    exact = capture(RuntimeError("x" * MAX_MESSAGE), default=ErrorType.TOOL, now=NOW).message
    longer = capture(RuntimeError("x" * 100_000), default=ErrorType.TOOL, now=NOW).message
    assert exact == "x" * MAX_MESSAGE
    assert longer == "x" * (MAX_MESSAGE - 1) + "…"


def test_a_long_chain_is_cut_and_a_circle_ends() -> None:
    exc: BaseException = ValueError("root")
    for number in range(MAX_CAUSES + 3):
        exc = raised(RuntimeError(str(number)), cause=exc)
    assert len(capture(exc, default=ErrorType.TOOL, now=NOW).causes) == MAX_CAUSES
    one, other = RuntimeError("one"), RuntimeError("other")
    circle = raised(one, cause=raised(other, cause=one))
    assert len(capture(circle, default=ErrorType.TOOL, now=NOW).causes) == 2


class Hostile(Exception):
    """Raises wherever it is touched."""

    @property
    def response(self) -> object:
        raise RuntimeError("no response yet")

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def test_an_exception_that_raises_when_looked_at_is_recorded_by_its_name() -> None:
    info = capture(Hostile(), default=ErrorType.TOOL, now=NOW)
    assert (info.type, info.message) == (ErrorType.TOOL, "Hostile")


def test_half_a_character_does_not_stop_the_log() -> None:
    assert capture(ValueError("caf\ud83d"), default=ErrorType.TOOL, now=NOW).message == "caf\\ud83d"


class Touchy:
    """Fails when it is used at all."""

    def __bool__(self) -> bool:
        raise RuntimeError("ambiguous")

    def get(self, name: str) -> str:
        raise RuntimeError(f"no header {name}")


class Worded(str):
    """A text that has no plain form of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("not translated yet")


@pytest.mark.parametrize(
    "told",
    [
        {"headers": Touchy()},
        {"response": Touchy()},
        {"body": {"error": Touchy()}},
        {"body": {"error": {"message": "no", "code": Worded("quota")}}},
        {"body": {"error": {"message": "no", "status": "²"}}},
        {"code": Worded("quota")},
    ],
)
def test_a_part_of_an_exception_that_fails_when_it_is_read_does_not_stop_the_log(told: dict[str, object]) -> None:
    error = ValueError("no")
    vars(error).update(told)
    info = capture(error, default=ErrorType.MODEL, now=NOW)
    assert (info.type, info.error_class, info.message) == (ErrorType.MODEL, "builtins:ValueError", "no")


def test_headers_that_cannot_be_read_leave_the_class_of_the_error() -> None:
    error = ValueError("slow down")
    vars(error).update(status_code=429, headers=Touchy())
    assert capture(error, default=ErrorType.TOOL, now=NOW).type is ErrorType.RATE_LIMIT


@pytest.mark.parametrize(
    "told", [{"code": "quota\ud83d"}, {"body": {"error": {"message": "no", "code": "quota\ud83d"}}}]
)
def test_half_a_character_in_a_code_does_not_stop_the_log(told: dict[str, object]) -> None:
    error = ValueError("no")
    vars(error).update(told)
    info = capture(error, default=ErrorType.MODEL, now=NOW)
    assert info.code == "quota\\ud83d"
    assert msgspec.json.decode(msgspec.json.encode(info), type=type(info)) == info


def test_half_a_character_in_a_name_or_a_file_does_not_stop_the_log() -> None:
    named = type("Odd", (ValueError,), {"__module__": "m\ud83d"})
    scope: dict[str, object] = {"Odd": named}
    exec(compile("def f():\n    raise Odd('no')", "caf\udcff.py", "exec"), scope)  # noqa: S102 - a file with such a name
    fails = scope["f"]
    assert callable(fails)
    with pytest.raises(named) as caught:
        fails()
    msgspec.json.encode(capture(caught.value, default=ErrorType.TOOL, now=NOW))
