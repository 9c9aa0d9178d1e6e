"""Decides what follows when a try of a node is cut off. The decision is recorded in the event."""

from steptrail.domain.flow.events import CutReason, NodeAttemptInterrupted, NodeThen
from steptrail.domain.flow.failing import failure_of_cut
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.nodes import MapNode
from steptrail.domain.flow.policies import OnUnknownOutcome
from steptrail.domain.flow.task import Task, of_try
from steptrail.domain.flow.tiers import tolerates
from steptrail.domain.tools import ToolEffect


def interrupted(run: RunFold, task: Task, reason: CutReason, *, seconds: float = 0.0) -> NodeAttemptInterrupted:
    """Return the event of a try that was cut off after so many seconds, with the decision what follows."""
    return NodeAttemptInterrupted(
        **of_try(task.key, task.attempt),
        reason=reason,
        then=then_after(run, task, reason),
        duration_seconds=seconds,
    )


def forgone(task: Task, reason: CutReason) -> NodeAttemptInterrupted:
    """Return the event of a try that is recorded as begun and was not.

    Nothing of it is unknown, so it may be made another time, whatever its effect.
    """
    return NodeAttemptInterrupted(
        **of_try(task.key, task.attempt), reason=reason, then=NodeThen.RERUN, duration_seconds=0.0
    )


def then_after(run: RunFold, task: Task, reason: CutReason) -> NodeThen:
    """Return what follows when a try of this task is cut off for such a reason."""
    if run.ended_by is not None:
        # A run that ends starts nothing again and waits for no person.
        return NodeThen.FAIL
    if task.effect is not ToolEffect.UNSAFE:
        return NodeThen.FAIL if reason is CutReason.TIMEOUT else NodeThen.RERUN
    node, chosen = run.node(task.node), run.node(task.node, task.item).on_unknown
    if chosen is None:
        records_items = isinstance(node, MapNode) and task.item is not None and node.on_item_error == "record"
        goes_on = records_items or tolerates(node, failure_of_cut(reason))
        chosen = OnUnknownOutcome.FAIL if goes_on else OnUnknownOutcome.PARK
    return NodeThen.FAIL if chosen is OnUnknownOutcome.FAIL else NodeThen.PARK
