"""Finds the class of an error from an exception, by names alone.

A failure is given as a chain of links, from the exception that was raised to its root cause. Each link has the names of
its classes, its HTTP status and its provider's code. No package of a provider is imported, so none needs to be
installed. The most telling link decides (see `classify`), in whatever exceptions it is wrapped.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from steptrail.domain.failures import ErrorType


class Telling(IntEnum):
    """How much a name says about the cause of an error."""

    LANGUAGE = 0
    """A class of the language, which any code raises and wraps errors in."""
    TRANSPORT = 1
    """A failed connection, according to the transport or the client. Clients wrap unknown errors in one too."""
    SPOKEN = 2
    """The provider answered, or its client knows the exact cause."""


class FailureLink(Struct, frozen=True, kw_only=True):
    """One exception of a chain, as names.

    `names` holds the classes of its MRO as `module:QualName`, the most derived first. `status_code` is an HTTP status.
    `code` is the provider's own word for the error.
    """

    names: tuple[str, ...]
    status_code: int | None = None
    code: str | None = None


class Classification(NamedTuple):
    """The class of an error, and the index of the link that decided; None when the default was taken."""

    type: ErrorType
    retryable: bool
    link: int | None


class _Verdict(NamedTuple):
    type: ErrorType
    retryable: bool
    telling: Telling = Telling.SPOKEN


_RATE_LIMIT = _Verdict(ErrorType.RATE_LIMIT, True)
_QUOTA = _Verdict(ErrorType.RATE_LIMIT, False)
_OVERLOADED = _Verdict(ErrorType.MODEL, True)
_TIMEOUT = _Verdict(ErrorType.TIMEOUT, True)
_RUBBISH = _OVERLOADED
"""The answer of the provider is no reply. That says nothing about the question: asked again, it may answer."""
_CUT_ANSWER = _Verdict(ErrorType.VALIDATION, True)
_REFUSED = _Verdict(ErrorType.MODEL, False)
_TRANSPORT_TIMEOUT = _TIMEOUT._replace(telling=Telling.TRANSPORT)
_TRANSPORT_RUBBISH = _RUBBISH._replace(telling=Telling.TRANSPORT)
_TRANSPORT_REFUSED = _REFUSED._replace(telling=Telling.TRANSPORT)
_CONNECTION = _OVERLOADED._replace(telling=Telling.TRANSPORT)
_LANGUAGE_TIMEOUT = _TIMEOUT._replace(telling=Telling.LANGUAGE)
_LANGUAGE_RUBBISH = _RUBBISH._replace(telling=Telling.LANGUAGE)
_LANGUAGE_INVALID = _CUT_ANSWER._replace(telling=Telling.LANGUAGE)
_LANGUAGE_CONNECTION = _OVERLOADED._replace(telling=Telling.LANGUAGE)

_WORDS: Mapping[str, _Verdict] = {
    "insufficient_quota": _QUOTA,
    "billing_error": _QUOTA,
    "billing_hard_limit_reached": _QUOTA,
    "context_length_exceeded": _REFUSED,
    # The server of llama.cpp has this word for the same error.
    "exceed_context_size_error": _REFUSED,
    "content_filter": _REFUSED,
    "content_policy_violation": _REFUSED,
    # The model wrote a call, or JSON, that its provider could not read: another time it may write a better one.
    "tool_use_failed": _RUBBISH,
    "json_validate_failed": _RUBBISH,
    # What the Responses API says inside a successful response of a request that fails the same way every time.
    **dict.fromkeys(
        (
            "invalid_prompt",
            "data_residency_mismatch",
            "bio_policy",
            "misalignment_policy_violation",
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "invalid_image_mode",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_content_policy_violation",
            "image_file_too_large",
            "image_file_not_found",
            "unsupported_image_media_type",
            "empty_image_file",
            "failed_to_download_image",
        ),
        _REFUSED,
    ),
}
"""Words of a provider that say more than a status does: a 429 may be an empty account, a 400 bad luck."""

_NAMES_OF_STATUSES: Mapping[str, _Verdict] = {
    "rate_limit_exceeded": _RATE_LIMIT,
    "rate_limit_error": _RATE_LIMIT,
    "RESOURCE_EXHAUSTED": _RATE_LIMIT,
    "overloaded_error": _OVERLOADED,
    "api_error": _OVERLOADED,
    "server_error": _OVERLOADED,
    "timeout_error": _TIMEOUT,
    "vector_store_timeout": _TIMEOUT,
    "invalid_api_key": _REFUSED,
    "model_not_found": _REFUSED,
}
"""Words that stand for a status. Servers that imitate a provider use them loosely, so the status counts more."""

_OPENAI: Mapping[str, _Verdict] = {
    "RateLimitError": _RATE_LIMIT,
    "InternalServerError": _OVERLOADED,
    "APITimeoutError": _TIMEOUT,
    "APIConnectionError": _CONNECTION,
    "APIResponseValidationError": _RUBBISH,
    "LengthFinishReasonError": _CUT_ANSWER,
    "ContentFilterFinishReasonError": _REFUSED,
    "BadRequestError": _REFUSED,
    "UnprocessableEntityError": _REFUSED,
    "NotFoundError": _REFUSED,
    "AuthenticationError": _REFUSED,
    "OAuthError": _REFUSED,
    "PermissionDeniedError": _REFUSED,
    "ConflictError": _OVERLOADED,
}
_ANTHROPIC: Mapping[str, _Verdict] = {
    **{name: verdict for name, verdict in _OPENAI.items() if not name.endswith(("FinishReasonError", "OAuthError"))},
    "OverloadedError": _OVERLOADED,
    "ServiceUnavailableError": _OVERLOADED,
    "DeadlineExceededError": _TIMEOUT,
    "RequestTooLargeError": _REFUSED,
    "WorkloadIdentityError": _REFUSED,
}
# `ClientError` is absent: its status tells a full quota from a wrong key.
_GOOGLE: Mapping[str, _Verdict] = {"ServerError": _OVERLOADED, "UnknownApiResponseError": _RUBBISH}
_LITELLM: Mapping[str, _Verdict] = {
    **{name: verdict for name, verdict in _OPENAI.items() if not name.endswith(("FinishReasonError", "OAuthError"))},
    "BudgetExceededError": _QUOTA,
    "ServiceUnavailableError": _OVERLOADED,
    "Timeout": _TIMEOUT,
    "ContextWindowExceededError": _REFUSED,
    "ContentPolicyViolationError": _REFUSED,
    "UnsupportedParamsError": _REFUSED,
}
_HTTPX: Mapping[str, _Verdict] = {
    "TimeoutException": _TRANSPORT_TIMEOUT,
    "NetworkError": _CONNECTION,
    "ProtocolError": _CONNECTION,
    "ProxyError": _CONNECTION,
    "DecodingError": _TRANSPORT_RUBBISH,
    "InvalidURL": _TRANSPORT_REFUSED,
    "UnsupportedProtocol": _TRANSPORT_REFUSED,
}

_LIBRARIES: Mapping[str, Mapping[str, _Verdict]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "google.genai": _GOOGLE,
    "litellm": _LITELLM,
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
}
"""Package -> class -> verdict. A package includes its submodules, because SDKs differ in the module of a class."""

_EXACT: Mapping[str, _Verdict] = {
    "builtins:TimeoutError": _LANGUAGE_TIMEOUT,
    "builtins:ConnectionError": _LANGUAGE_CONNECTION,
    "ssl:SSLCertVerificationError": _REFUSED,
    "ssl:SSLError": _LANGUAGE_CONNECTION,
    "socket:gaierror": _LANGUAGE_CONNECTION,
    "json.decoder:JSONDecodeError": _LANGUAGE_RUBBISH,
    "pydantic_core._pydantic_core:ValidationError": _LANGUAGE_INVALID,
    "steptrail.domain.errors:ConfigurationError": _REFUSED,
    "steptrail.infrastructure.models.errors:ModelReplyInvalid": _RUBBISH,
}
"""Classes outside the libraries above, by their full name."""

_AT_LEAST: Mapping[str, _Verdict] = {"steptrail.infrastructure.models.errors:ModelFailed": _OVERLOADED}
"""Classes that say less than a status or a word that comes with them."""


def classify(chain: Sequence[FailureLink], default: ErrorType) -> Classification:
    """Return the class of a failure; `default` when no link of the chain is known.

    Within a link, these decide in this order: a word of the provider that says more than a status, the class (the most
    derived first), the status, and a word that only stands for a status.
    Of several known links, the most telling one decides. So unknown wrappers, generic ones and the catch-all class of a
    client give way to the exception inside them. Of links that tell as much, the outermost decides: a library that
    raises a new exception knows more than the exception that it caught.
    """
    best: tuple[int, _Verdict] | None = None
    for index, link in enumerate(chain):
        verdict = _of_link(link)
        if verdict is not None and (best is None or verdict.telling > best[1].telling):
            best = (index, verdict)
    if best is None:
        return Classification(default, True, None)
    return Classification(best[1].type, best[1].retryable, best[0])


def _of_link(link: FailureLink) -> _Verdict | None:
    word = link.code or ""
    if (verdict := _WORDS.get(word)) is not None:
        return verdict
    for name in link.names:
        if (verdict := _of_class(name)) is not None:
            return verdict
    by_status = None if link.status_code is None else _of_status(link.status_code)
    by_word = by_status or _NAMES_OF_STATUSES.get(word)
    return by_word or next((_AT_LEAST[name] for name in link.names if name in _AT_LEAST), None)


def _of_class(name: str) -> _Verdict | None:
    if (exact := _EXACT.get(name)) is not None:
        return exact
    module, _, qualified = name.partition(":")
    package = ".".join(module.split(".")[:2]) if module.startswith("google.") else module.partition(".")[0]
    return _LIBRARIES.get(package, {}).get(qualified)


def _of_status(status: int) -> _Verdict | None:
    match status:
        case 429:
            return _RATE_LIMIT
        case 408 | 504:
            return _TIMEOUT
        case 409:
            return _OVERLOADED
        case _ if 400 <= status < 500:
            return _REFUSED
        case _ if 500 <= status < 600:
            return _OVERLOADED
        case _:
            return None
