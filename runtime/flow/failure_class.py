"""Derives the class of a failure, once, where it is caught."""

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.policies import FailureClass

_UNAVAILABLE = frozenset({408, 500, 502, 503, 504, 529})
_AWAY = frozenset(
    {
        "builtins:ConnectionAbortedError",
        "builtins:ConnectionError",
        "builtins:ConnectionRefusedError",
        "builtins:ConnectionResetError",
        "builtins:BrokenPipeError",
        "socket:gaierror",
        "steptrail.domain.errors:StreamBroken",
    }
)
"""The classes of exceptions that say that the other side could not be reached, or broke off."""

_NOT_STORABLE = "steptrail.domain.errors:NotStorable"

_NAMES = frozenset(
    {"APIConnectionError", "ConnectError", "ConnectTimeout", "RemoteProtocolError", "ServiceUnavailable"}
)
"""Names that client libraries give to such exceptions."""


def failure_class(error: ErrorInfo, usual: FailureClass) -> FailureClass:
    """Return the class of a failure. `usual` is that of a failure of which nothing more is known at this place."""
    match error.type:
        case ErrorType.TIMEOUT:
            return FailureClass.TIMEOUT
        case ErrorType.RATE_LIMIT:
            return FailureClass.RATE_LIMIT
        case ErrorType.VALIDATION:
            return FailureClass.VALIDATION
        case _:
            pass
    if error.error_class == _NOT_STORABLE:
        # The work is done, and another try would do it again to come to the same.
        return FailureClass.VALIDATION
    classes = {error.error_class, *(cause.partition(": ")[0] for cause in error.causes)}
    is_away = bool(classes & _AWAY) or any(name.rpartition(":")[2] in _NAMES for name in classes)
    return FailureClass.UNAVAILABLE if is_away or error.status_code in _UNAVAILABLE else usual
