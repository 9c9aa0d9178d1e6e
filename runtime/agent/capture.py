"""Makes data of an exception for the log: its class, its message, its causes, and the delay that the provider asks for.

Parts that may hold a secret are left out: all headers except the delay to wait, all of a body except the provider's
own message, and credentials inside an address. The size of the data is bounded.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC
from typing import Final, TypeVar, cast

from steptrail.domain.exception_words import kept_text, unicode_text, words_of
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.module_names import module_of
from steptrail.domain.policy.classification import FailureLink, classify
from steptrail.domain.provider_errors import ProviderError, read_error
from steptrail.domain.secrets import without_secrets
from steptrail.runtime.agent.frames import frames_of

MAX_CAUSES: Final = 8
"""How many exceptions of a chain are read and kept."""

_LONGEST_DELAY: Final = 366 * 86_400.0
"""Seconds. A larger number is no delay but something else, and must not make a run wait."""

_T = TypeVar("_T")

_RECLASSIFIES_A_TOOL: Final = frozenset({ErrorType.RATE_LIMIT, ErrorType.TIMEOUT})


class CapturedFailure(Exception):
    """A failure that was captured before, and keeps what was: one below it, or a recorded one that is replayed."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


def capture(exc: BaseException, *, default: ErrorType, now: float) -> ErrorInfo:
    """Return the recorded form of an exception, which must not be a cancellation.

    `default` is the error type when no exception of the chain is known. With `ErrorType.TOOL` (the exception came out
    of a tool's body), only a rate limit or a timeout gives another type: any other error in a tool is the tool's
    failure, also a validation error. `now` is in epoch seconds; a `retry-after` date is compared with it.

    The message is the first one of the chain that is not empty. `error_class` is the class of the exception that gave
    the error type; the class of `exc` itself when the type is `default`. Of an exception with code of its own that
    fails when it is read, only class, message and frames are kept.
    """
    if isinstance(exc, CapturedFailure):
        return exc.info
    chain = _chain(exc)
    try:
        return _read(chain, default, now)
    except Exception:
        return ErrorInfo(
            type=default,
            error_class=_name(type(exc)),
            message=words_of(exc) or type(exc).__name__,
            frames=frames_of(chain, installed=default is ErrorType.TOOL),
        )


class ToolCapture:
    """Captures the exception of a tool's call, and keeps the exception for `logging`. `now` returns the instant."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.raised: BaseException | None = None

    def __call__(self, error: BaseException) -> ErrorInfo:
        """Return the recorded form of the exception."""
        self.raised = error
        return capture(error, default=ErrorType.TOOL, now=self._now() / 1e6)


def _read(chain: list[BaseException], default: ErrorType, now: float) -> ErrorInfo:
    found = classify([_link(each) for each in chain], default)
    as_default = found.link is None or (default is ErrorType.TOOL and found.type not in _RECLASSIFIES_A_TOOL)
    decisive = chain[0] if as_default or found.link is None else chain[found.link]
    messages = [_message(each) for each in chain]
    return ErrorInfo(
        type=default if as_default else found.type,
        error_class=_name(type(decisive)),
        message=next((text for text in messages if text), type(chain[0]).__name__),
        causes=tuple(f"{_name(type(each))}: {text}" for each, text in zip(chain, messages, strict=True)),
        status_code=_first(decisive, chain, _status_code),
        code=_first(decisive, chain, _code),
        retryable=True if as_default else found.retryable,
        retry_after=next((delay for each in chain if (delay := _retry_after(each, now)) is not None), None),
        frames=frames_of(chain, installed=default is ErrorType.TOOL),
    )


def _chain(exc: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = exc
    while current is not None and len(chain) < MAX_CAUSES and all(current is not each for each in chain):
        chain.append(current)
        current = _beneath(current)
    return chain


def _beneath(exc: BaseException) -> BaseException | None:
    if exc.__cause__ is not None:
        return exc.__cause__
    if isinstance(exc, BaseExceptionGroup):
        # A task group stands for its members. The first of them that failed has cancelled the others.
        return cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
    return None if exc.__suppress_context__ else exc.__context__


def _link(exc: BaseException) -> FailureLink:
    names = tuple(_name(cls) for cls in type(exc).__mro__)
    return FailureLink(names=names, status_code=_status_code(exc), code=_code(exc))


def _name(cls: type) -> str:
    return unicode_text(f"{module_of(cls)}:{cls.__qualname__}")


def _attribute(owner: object, name: str) -> object:
    """Read an attribute of a foreign exception, whose properties may raise."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


def _first(
    decisive: BaseException, chain: list[BaseException], read: Callable[[BaseException], _T | None]
) -> _T | None:
    return next((value for each in (decisive, *chain) if (value := read(each)) is not None), None)


def _status_code(exc: BaseException) -> int | None:
    response = _attribute(exc, "response")
    places = ((exc, "status_code"), (exc, "code"), (exc, "status"), (response, "status_code"), (response, "status"))
    for owner, name in places:
        value = _attribute(owner, name)
        if isinstance(value, int) and 100 <= value < 600:
            return int(value)
    return None


def _code(exc: BaseException) -> str | None:
    for value in (_attribute(exc, "code"), _attribute(exc, "status"), _said(exc).code):
        # Some servers repeat the status as the code. Then the type says more.
        if isinstance(value, str) and value and not value.isdigit():
            return without_secrets(unicode_text(value[:400]))[:200]
    return None


def _said(exc: BaseException) -> ProviderError:
    """Return the provider's error object. A text in its place may be any page, and is ignored."""
    body = _attribute(exc, "body")
    if isinstance(body, str):
        # SDKs hand on the value of `error` even if it is a text, and bodies that are no JSON at all.
        text = _attribute(_attribute(exc, "response"), "text")
        try:
            body = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return ProviderError()
    return read_error(body)


def _message(exc: BaseException) -> str:
    said = _said(exc).message
    if said is not None:
        return kept_text(said)
    words, status = words_of(exc), _attribute(_attribute(exc, "response"), "status_code")
    bare = f"Error code: {status}"
    # Some versions of SDKs write a body without words of the provider, such as a proxy's page, into the exception.
    is_body = _attribute(exc, "body") is not None or words.startswith(f"{bare} - ")
    return bare if is_body and status is not None else words


def _retry_after(exc: BaseException, now: float) -> float | None:
    """Return the delay in seconds from `retry-after-ms`, or else from `retry-after`, in seconds or as a date.

    SDKs read the same headers in this order.
    """
    response = _attribute(exc, "response")
    headers = _attribute(exc if response is None else response, "headers")
    get = _attribute(headers, "get")
    if not callable(get):
        return None
    try:
        asked = _asked_for(get("retry-after-ms"), get("retry-after"), now)
    except Exception:
        return None
    return asked if asked is not None and asked <= _LONGEST_DELAY else None


def _asked_for(milliseconds: object, value: object, now: float) -> float | None:
    if (thousands := _number(milliseconds)) is not None:
        return thousands / 1000
    seconds = _number(value)
    if seconds is not None or not isinstance(value, str):
        return seconds
    from email.utils import parsedate_to_datetime  # brings a dozen modules, and hardly any error has a date

    try:
        date = parsedate_to_datetime(value)
        # HTTP knows one zone, which `-0000` and the form of asctime do not name.
        return max(0.0, (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
