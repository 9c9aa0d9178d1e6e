"""The open questions of a run of a workflow to people: human nodes, approvals, held steps, and unknown outcomes."""

from collections.abc import Mapping
from functools import partial

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.choices import chooses
from steptrail.domain.flow.concluding import enabled
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.templates import arguments
from steptrail.domain.flow.nodes import HumanNode, ToolNode
from steptrail.domain.flow.seeing import seen_by
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskPhase
from steptrail.domain.flow.waits import waiting_until
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.projections.questions import Question


def questions_of_flow(stream: str, state: FlowState) -> tuple[Question, ...]:
    """Return the open questions of a run, in the order in which they were asked."""
    run = state.run
    if run is None or not state.is_open:
        return ()
    tasks = sorted(run.tasks.values(), key=lambda task: task.asked_at_version)
    found = (_question(stream, state.name, run, task) for task in tasks if task.node in run.open)
    return tuple(question for question in found if question is not None)


def _question(stream: str, name: str, run: RunFold, task: Task) -> Question | None:
    until = waiting_until(run, task)
    expires_at = None if until is None else to_datetime(until)
    ask = partial(Question, stream=stream, agent=name, asked_at=to_datetime(task.asked_at), node=task.node)
    if task.phase is TaskPhase.PARKED:
        tool, given = _call(run, task)
        return ask(
            kind="unknown_outcome",
            id=task.effect_id,
            tool=tool,
            arguments=given,
            digest=None if given is None else digest_of(dict(given)),
        )
    if task.phase is not TaskPhase.ASKED:
        return None
    node = run.node(task.node)
    if task.held is not None:
        ahead = dict.fromkeys(run.graph.edges[edge].target for edge in enabled(run.graph, node))
        return ask(
            kind="step",
            id=task.node,
            type=task.held,
            options=tuple(ahead) if task.held == "before" and chooses(node) else (),
            expires_at=expires_at,
            on_expiry=None if until is None else "fail_run",
        )
    if (request := task.request) is not None:
        return ask(
            kind="human",
            id=request.request_id,
            type=request.type,
            prompt=request.prompt,
            data=request.data,
            options=request.options,
            schema=request.schema,
            digest=request.digest,
            expires_at=expires_at,
            on_expiry=None if until is None or not isinstance(node, HumanNode) else node.on_timeout,
        )
    if task.approval is None or not task.approval.is_open:
        return None
    tool, given = _call(run, task)
    return ask(
        kind="approval",
        id=task.approval.id,
        tool=tool,
        arguments=given,
        digest=task.approval.digest,
        expires_at=expires_at,
        on_expiry=None if until is None else "fail",
        asked_by=task.approval.asked_by,
        reason=task.approval.reason,
    )


def _call(run: RunFold, task: Task) -> tuple[str | None, Mapping[str, JsonValue] | None]:
    """Return the tool that a task calls, and the arguments; None for each that there is not."""
    node = run.node(task.node, task.item)
    if not isinstance(node, ToolNode):
        return None, None
    if task.arguments is not None:
        return node.tool.name, task.arguments
    try:
        seen = seen_by(run, run.open[task.node], task.item)
        return node.tool.name, arguments(node.args, seen, node.required)
    except NodeFault:
        return node.tool.name, None
