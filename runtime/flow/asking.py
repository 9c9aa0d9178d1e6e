"""Makes the questions of a run to people: those of human nodes, and whether a tool may run."""

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.events import ApprovalRequested, FlowEvent, HumanRequested
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.ids import effect_id
from steptrail.domain.flow.kinds.people import PersonsQuestion, asked
from steptrail.domain.flow.kinds.port import NodeFault, Schemas
from steptrail.domain.flow.kinds.templates import arguments
from steptrail.domain.flow.nodes import HumanNode, ToolNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.seeing import seen_by
from steptrail.domain.flow.task import Task
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ApprovalRule
from steptrail.runtime.agent.unfit import unfit
from steptrail.runtime.flow.failure_class import failure_class, faulty, never_ran


def question(run: RunFold, task: Task, now: int, schemas: Schemas, tool: object = None) -> FlowEvent:
    """Return the event that asks, or the failure of a node whose question cannot be made, or not be answered.

    `tool` is that of the node, if it is known here: nobody is asked about arguments that do not fit it.
    """
    node, visit = run.node(task.node, task.item), run.open[task.node]
    seen, name = seen_by(run, visit, task.item), effect_id(visit.execution, *task.key)
    # What a retry asks again is another question.
    request_id = f"{name}:r{run.retries}" if run.retries else name
    try:
        if isinstance(node, HumanNode):
            if node.schema is not None:
                # With a schema that is none, all that a person says would be refused.
                schemas.problems(node.schema, None)
            return _asked(node, task, request_id, now, asked(node, seen))
        if isinstance(node, ToolNode):
            given = arguments(node.args, seen, node.required)
            if (error := unfit(tool, given, None, now)) is not None:
                return never_ran(task.key, failure_class(error, FailureClass.VALIDATION), error, {})
            return _requested(node, task, request_id, now, given)
    except NodeFault as fault:
        return faulty(task.key, fault)
    raise ValueError(f"{task.node} asks nobody")


def _asked(node: HumanNode, task: Task, request_id: str, now: int, made: PersonsQuestion) -> HumanRequested:
    return HumanRequested(
        request_id=request_id,
        node=task.node,
        visit=task.visit,
        type=node.type,
        prompt=made.prompt,
        data=made.data,
        digest=made.digest,
        options=node.options,
        schema=node.schema,
        expires_at=None if node.expires is None else now + round(node.expires * 1e6),
        on_timeout=node.on_timeout,
    )


def _requested(
    node: ToolNode, task: Task, approval_id: str, now: int, given: dict[str, JsonValue]
) -> ApprovalRequested:
    rule = node.tool.approval or ApprovalRule()
    return ApprovalRequested(
        approval_id=approval_id,
        node=task.node,
        visit=task.visit,
        item=task.item,
        tool=node.tool.name,
        arguments_digest=digest_of(given),
        expires_at=now + round(rule.expires * 1e6),
        asked_by=node.tool.name,
        reason=rule.reason,
    )
