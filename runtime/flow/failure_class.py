"""The class of a failure, and the recorded form of a node that cannot run as it is written."""

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.events import NodeAttemptFailed
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.task import TaskKey, of_try
from steptrail.domain.json_value import JsonValue

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


def fault_info(fault: NodeFault) -> ErrorInfo:
    """Return a fault as it is recorded. It comes again every time."""
    name = fault_class(fault.failure)
    return ErrorInfo(type=ErrorType.VALIDATION, error_class=name, message=fault.message, retryable=False)


def fault_class(failure: FailureClass) -> str:
    """Return the class under which a fault is recorded."""
    return f"steptrail:{failure.value}"


def faulty(key: TaskKey, fault: NodeFault, attempt: int = 0) -> NodeAttemptFailed:
    """Return the event of a fault. `attempt` is the last try before it, 0 if the node never ran."""
    return never_ran(key, fault.failure, fault_info(fault), fault.details, attempt)


def never_ran(
    key: TaskKey, failure: FailureClass, error: ErrorInfo, details: dict[str, JsonValue], attempt: int = 0
) -> NodeAttemptFailed:
    """Return the event of a failure of a node for which no try was made."""
    tried = of_try(key, attempt)
    return NodeAttemptFailed(**tried, failure=failure, error=error, details=details, duration_seconds=0.0)
