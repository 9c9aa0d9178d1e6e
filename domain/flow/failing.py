"""The failure of a node as the tiers see it: its class, its message and what is known of it."""

from typing import NamedTuple

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow import events as stored
from steptrail.domain.flow.envelope import NodeError, Tier
from steptrail.domain.flow.nodes import AgentNode, FlowNode, MapNode, Node, ToolNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.task import Landing, Task
from steptrail.domain.json_value import JsonValue


class Failure(NamedTuple):
    """A failure, whatever it came from. `attempt` is the last try, 0 if the node never ran."""

    failure: FailureClass
    message: str
    attempt: int
    may_retry: bool = False
    details: dict[str, JsonValue] = {}
    error: ErrorInfo | None = None
    retry_after: float | None = None


def working_node(node: Node, item: int | None) -> Node:
    """Return the node that is tried: the inner one of a map for an item, else the node itself."""
    return node.node if isinstance(node, MapNode) and item is not None else node


def stream_kind(node: Node) -> str | None:
    """Return the kind of the stream that a node runs, such as `agent`; None for a node that runs none."""
    match node:
        case AgentNode():
            return "agent"
        case FlowNode():
            return "flow"
        case ToolNode():
            return node.tool.runs_children
        case _:
            return None


def failure_of(landing: Landing) -> Failure | None:
    """Return the failure with which a task has landed; None when it has landed well."""
    match landing:
        case stored.NodeAttemptFailed(failure=failure, error=error):
            return Failure(
                failure=failure,
                message=error.message,
                attempt=landing.attempt,
                may_retry=landing.may_retry,
                details=landing.details,
                error=error,
                retry_after=error.retry_after,
            )
        case stored.NodeAttemptInterrupted(reason=reason):
            message = f"it was cut off ({reason}), and its outcome is unknown"
            return Failure(failure_of_cut(reason), message, landing.attempt)
        case stored.ApprovalDenied(by=by, reason=reason):
            return Failure(FailureClass.REJECTED, f"{by} said no" + (f": {reason}" if reason else ""), 0)
        case stored.ApprovalExpired():
            return Failure(FailureClass.EXPIRED, "nobody said yes in time", 0)
        case _:
            return None


def failure_of_cut(reason: stored.CutReason) -> FailureClass:
    """Return the class of the failure of a try that was cut off for such a reason and may have taken effect."""
    return FailureClass.TIMEOUT if reason is stored.CutReason.TIMEOUT else FailureClass.UNKNOWN_OUTCOME


def node_error(node: Node, task: Task, failed: Failure, tier: Tier, at: int) -> NodeError:
    """Return the recorded form of a failure. After several tries the message says how many there were."""
    tried = working_node(node, task.item)
    message, tries = failed.message, _tries(task, failed)
    if tries > 1:
        name = tried.tool.name if isinstance(tried, ToolNode) else node.id
        message = f'{_kind(tried)} "{name}" failed after {tries} attempts: {message}'
    details = {**failed.details, "tool": tried.tool.name} if isinstance(tried, ToolNode) else failed.details
    return NodeError(
        node_id=node.id,
        kind=_kind(node),
        message=message,
        attempt=tries,
        visit=task.visit,
        item=task.item,
        failure=failed.failure,
        tier=tier,
        at=at,
        details=details,
        error=failed.error,
    )


def _tries(task: Task, failed: Failure) -> int:
    """Return how many tries a task had. A look after a stream below that rested is numbered as one, and is none."""
    ended = task.failures + task.interruptions + isinstance(task.landing, stored.NodeAttemptCompleted)
    return min(failed.attempt, max(1, ended))


def _kind(node: Node) -> str:
    return str(node.__struct_config__.tag)
