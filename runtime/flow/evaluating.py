"""Evaluates a node that does not leave the process, and makes the event of its result or of its failure."""

from asyncio import CancelledError

from steptrail.domain.failures import ErrorType
from steptrail.domain.flow.events import FlowEvent, HumanAnswered, HumanExpired, NodeEvaluated
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.kinds.evaluation import evaluate
from steptrail.domain.flow.kinds.merging import merge
from steptrail.domain.flow.kinds.people import PersonsAnswer, answered, expired
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated
from steptrail.domain.flow.lacking import functions_of
from steptrail.domain.flow.nodes import HumanNode, MergeNode, Node
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.seeing import branches_of, seen_by
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskKey
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.run_log import call_failed
from steptrail.runtime.flow.failure_class import failure_class, faulty, never_ran
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.run_log import could_not_run
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.log_context import LogPlace, logged_at


def evaluated(state: FlowState, key: TaskKey, flow: BuiltWorkflow | None, means: FlowMeans, now: int) -> FlowEvent:
    """Return the event of the result of a node, or of its failure. Code of the user logs from the place of the node.

    A person's answer needs no code, and so no workflow.
    """
    run = state.at_work()
    with logged_at(LogPlace(state.flow_id, run.id, node=key[0], visit=key[1])):
        return _evaluated(state.flow_id, run, run.tasks[key], flow, means, now)


def _evaluated(
    name: str, run: RunFold, task: Task, flow: BuiltWorkflow | None, means: FlowMeans, now: int
) -> FlowEvent:
    node = run.node(task.node)
    brought = means.of_nodes
    if flow is not None:
        brought = brought._replace(functions=functions_of(node, flow.functions.get(node.id, {})))
    try:
        result = _result(run, node, task, brought)
    except NodeFault as fault:
        could_not_run(name, node.id, fault.failure)
        return faulty(task.key, fault)
    except (Exception, CancelledError) as failed:
        # Nothing waits here, so a cancellation is nobody's request.
        alone = RuntimeError("the function cancelled itself, and nobody had asked it to")
        raised = alone if isinstance(failed, CancelledError) else failed
        error = capture(raised, default=ErrorType.UNKNOWN, now=now / 1e6)
        call_failed(f"flow {name}", f"node {node.id}", error, raised)
        return never_ran(task.key, failure_class(error, FailureClass.ERROR), error, {})
    return NodeEvaluated(node=task.node, visit=task.visit, **result._asdict())


def _result(run: RunFold, node: Node, task: Task, means: NodeMeans) -> Evaluated:
    visit = run.open[task.node]
    if isinstance(node, MergeNode):
        return merge(node, branches_of(run, visit), seen_by(run, visit), means)
    if not isinstance(node, HumanNode):
        return evaluate(node, seen_by(run, visit), means)
    match task.landing:
        case HumanAnswered(choice=choice, approved=approved, data=data, notes=notes, by=by):
            answer = PersonsAnswer(choice=choice, approved=approved, data=data, notes=notes, by=by)
            return answered(node, answer, task.answered_at)
        case HumanExpired():
            return expired(node, task.answered_at, means.schemas)
        case _:
            raise NodeFault(FailureClass.CONFIG, "nobody was asked")
