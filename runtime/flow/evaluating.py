"""Evaluates a node that does not leave the process, and makes the event of its result or of its failure."""

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.events import FlowEvent, NodeAttemptFailed, NodeEvaluated
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.port import Means, NodeFault
from steptrail.domain.flow.kinds.seen import Evaluated
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.task import Task
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.run_log import call_failed
from steptrail.runtime.flow.failure_class import failure_class
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.seeing import seen_by
from steptrail.runtime.flow.workflow import BuiltWorkflow

__all__ = ["evaluated"]


def evaluated(run: RunFold, graph: Graph, task: Task, flow: BuiltWorkflow, means: FlowMeans, now: int) -> FlowEvent:
    """Return the event of the result of a node, or of its failure."""
    node, visit = graph.nodes[graph.numbers[task.node]], run.open[task.node]
    seen = seen_by(run, graph, visit)
    brought = Means(means.expressions, means.schemas, flow.functions.get(node.id, {}))
    try:
        result = evaluate(node, seen, brought)
    except NodeFault as fault:
        error = ErrorInfo(
            type=ErrorType.VALIDATION,
            error_class=f"steptrail:{fault.failure.value}",
            message=fault.message,
            retryable=False,
        )
        return _failed(task, fault.failure, error, dict(fault.details))
    except Exception as raised:
        error = capture(raised, default=ErrorType.UNKNOWN, now=now / 1e6)
        call_failed(run.id, f"node {node.id}", error, raised)
        return _failed(task, failure_class(error, FailureClass.ERROR), error, {})
    return _event(task, result)


def _event(task: Task, result: Evaluated) -> NodeEvaluated:
    return NodeEvaluated(
        node=task.node,
        visit=task.visit,
        output=result.output,
        sets=dict(result.sets),
        unsets=result.unsets,
        messages=result.messages,
        artifacts=result.artifacts,
        route=result.route,
        detail=dict(result.detail),
    )


def _failed(task: Task, failure: FailureClass, error: ErrorInfo, details: dict[str, JsonValue]) -> NodeAttemptFailed:
    return NodeAttemptFailed(
        node=task.node,
        visit=task.visit,
        attempt=0,
        failure=failure,
        error=error,
        details=details,
        duration_seconds=0.0,
    )
