"""The answers of people about a run: to human nodes, to approvals, to held steps, and verdicts on unknown outcomes."""

from typing import Literal

from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow import events
from steptrail.domain.flow.choices import chooses
from steptrail.domain.flow.commands import AnswerQuestion, AnswerStep, SettleNode
from steptrail.domain.flow.concluding import enabled
from steptrail.domain.flow.nodes import ToolNode
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.seeing import items_seen
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskPhase, of_try
from steptrail.domain.flow.views import Delta
from steptrail.domain.flow.waits import waiting_until
from steptrail.domain.instants import instant_text
from steptrail.domain.shared.approvals import NotAsked, answer_to
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.events import settled


def _ended(
    state: FlowState, reason: Literal["answered", "approved", "denied", "settled"], by: str
) -> tuple[events.WaitEnded, ...]:
    """Return the end of the wait, if the answer finds the run waiting."""
    return (events.WaitEnded(reason=reason, by=by),) if state.phase is RunPhase.WAITING else ()


def open_question(state: FlowState, to: str) -> events.HumanRequested:
    """Return the open question of a node, or of this id. Raises `CommandRejected`."""
    asked = [task.request for task in state.tasks if task.phase is TaskPhase.ASKED and task.held is None]
    questions = [request for request in asked if request is not None]
    for question in questions:
        if to in {question.node, question.request_id}:
            return question
    open_ones = ", ".join(question.node for question in questions) or "none"
    why = f"nobody is asked about {shown(to)}, or the question was answered already; open are: {open_ones}"
    raise NotAsked("answer", state.stream_id, why)


def answer(state: FlowState, command: AnswerQuestion) -> tuple[events.FlowEvent, ...]:
    """Return the events of an answer to a human node. It is taken once, and in time by the instant of the command."""
    request = open_question(state, command.to)
    if request.expires_at is not None and command.at >= request.expires_at:
        why = f"the question expired at {instant_text(request.expires_at)}"
        raise CommandRejected("answer", state.stream_id, why)
    if command.digest is not None and command.digest != request.digest:
        why = f"the question is {request.digest}, not {command.digest}: it was asked anew"
        raise CommandRejected("answer", state.stream_id, why)
    state.refuse_unknown_files(command.files, data=command.data)
    answered = events.HumanAnswered(
        request_id=request.request_id,
        by=command.by,
        choice=command.choice,
        approved=command.approved,
        data=command.data,
        files=command.files,
        notes=command.notes,
        key=command.key,
    )
    return (answered, *_ended(state, "answered", command.by))


def answer_approval(state: FlowState, command: Approve | Deny) -> tuple[events.FlowEvent, ...]:
    """Return the events of a yes or a no to the call of a tool. Raises `CommandRejected`."""
    tasks = [task for task in state.tasks if task.approval is not None and task.approval.id == command.approval_id]
    approval = tasks[0].approval if tasks else None
    if approval is None or not approval.is_open:
        why = f"no approval {shown(command.approval_id)} is open, or it was answered already"
        raise NotAsked(command.DOING, state.stream_id, why, "an approval is answered once")
    node = state.at_work().node(tasks[0].node, tasks[0].item)
    answered = answer_to(approval, command, node.tool if isinstance(node, ToolNode) else None, state.stream_id)
    return (answered, *_ended(state, "denied" if isinstance(command, Deny) else "approved", command.by))


def answer_step(state: FlowState, command: AnswerStep) -> tuple[events.FlowEvent, ...]:
    """Return the events of a word about a visit that is held. Raises `CommandRejected`, also when it comes too late."""
    held = [task for task in state.tasks if task.held is not None and task.node == command.node]
    if not held or held[0].held is None:
        raise NotAsked("step", state.stream_id, f"no visit of {shown(command.node)} is held")
    task, point = held[0], held[0].held
    run = state.at_work()
    if (until := waiting_until(run, task)) is not None and command.at >= until:
        why = f"the question about {task.node!r} expired at {instant_text(until)}"
        raise CommandRejected("step", state.stream_id, why)
    if point == "after" and command.action == "skip":
        raise CommandRejected("step", state.stream_id, "a visit that has ended cannot be skipped: continue or abort")
    if point == "after" and (command.sets or command.unsets):
        raise CommandRejected("step", state.stream_id, "what a visit has written cannot be changed after it")
    node = run.node(task.node)
    if command.action == "skip" and chooses(node) and command.targets is None:
        raise CommandRejected("step", state.stream_id, f"{task.node} chooses what comes next: say it in `targets`")
    if command.action != "skip" and command.targets is not None:
        raise CommandRejected("step", state.stream_id, "`targets` say what comes after a visit that is skipped")
    ahead = [run.graph.edges[edge].target for edge in enabled(run.graph, node)]
    if nowhere := [target for target in command.targets or () if target not in ahead]:
        raise CommandRejected("step", state.stream_id, f"no edge leads from {task.node!r} to {shown(nowhere[0])}")
    visit = run.open[task.node]
    view = visit.view.with_changes(Delta(sets=command.sets, unsets=command.unsets))
    if command.action == "continue" and visit.next_item and items_seen(run, node, view) != visit.items:
        why = f"{task.node} has begun with a list of {visit.items} items: another has to be as long"
        raise CommandRejected("step", state.stream_id, why)
    state.refuse_unknown_files(command.files, set=command.sets)
    answered = events.StepAnswered(
        node=task.node,
        visit=task.visit,
        point=point,
        action=command.action,
        sets=command.sets,
        files=command.files,
        unsets=command.unsets,
        targets=command.targets,
        by=command.by,
        reason=command.reason,
        key=command.key,
    )
    return (answered, *_ended(state, "answered", command.by))


def settle(state: FlowState, command: SettleNode) -> tuple[events.FlowEvent, ...]:
    """Return the events of a verdict on a node whose outcome is unknown. Raises `CommandRejected`."""
    task = next((task for task in state.tasks if task.effect_id == command.effect_id), None)
    if task is None or task.phase is not TaskPhase.PARKED:
        why = f"nobody waits for a verdict on {command.effect_id}"
        raise NotAsked("settle", state.stream_id, why, "a call in doubt is settled once")
    state.refuse_unknown_files(command.files, output=command.output)
    return (_settled(task, command), *_ended(state, "settled", command.by))


def _settled(task: Task, command: SettleNode) -> events.FlowEvent:
    tried, by_whom = of_try(task.key, task.attempt), settled(command.by, command.reason)
    match command.verdict:
        case "completed":
            return events.NodeAttemptCompleted(**tried, **by_whom, output=command.output, files=command.files)
        case "failed":
            error = ErrorInfo(
                type=ErrorType.UNKNOWN,
                error_class="steptrail:SettledAsFailed",
                message=command.message or "it failed",
                retryable=False,
            )
            return events.NodeAttemptFailed(**tried, **by_whom, failure=FailureClass.UNKNOWN_OUTCOME, error=error)
        case "rerun":
            return events.NodeAttemptInterrupted(
                **tried, **by_whom, reason=events.CutReason.CRASH, then=events.NodeThen.RERUN
            )
