"""The recorded form of a node that cannot run as it is written, or that was evaluated to a failure."""

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.events import NodeAttemptFailed
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.task import TaskKey, of_try
from steptrail.domain.json_value import JsonValue


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
