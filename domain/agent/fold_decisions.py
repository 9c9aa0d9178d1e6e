"""Fold handlers of decisions and waits: votes are gathered and resolved, and a wait begins and ends."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_calls import move_call
from steptrail.domain.agent.standing import waits_of
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.kernel.standing import answered

DECISION_HANDLERS = Handlers[SessionFold, [int], None]()


@DECISION_HANDLERS.of(stored.EvaluationsRecorded)
def _evaluations_recorded(fold: SessionFold, event: stored.EvaluationsRecorded, at: int) -> None:
    if fold.execution is None or event.phase == "end":
        return
    if event.phase == "resume":
        fold.execution.guard_votes = (*fold.execution.guard_votes, *event.votes)
    elif event.hook is not None:
        fold.execution.votes = (*fold.execution.votes, *event.votes)
    else:
        # The votes of the criteria come first in the trace, also when hooks have voted before them.
        fold.execution.votes = (*event.votes, *fold.execution.votes)


@DECISION_HANDLERS.of(stored.ContinuationEvaluated)
def _continuation_evaluated(fold: SessionFold, event: stored.ContinuationEvaluated, at: int) -> None:
    execution = fold.execution
    if execution is None:
        return
    execution.waited = False
    if event.phase == "resume":
        decided, execution.guard_votes = execution.guard_votes, ()
        if event.should_continue:
            if execution.wait is not None and fold.step is not None:
                fold.step.clock = fold.step.clock.stopped(at)
            return
        execution.wait, execution.waits = None, ()
    elif event.phase == "stop":
        decided, execution.votes = (*execution.decided_votes, *execution.votes), ()
    else:
        decided, execution.votes = execution.votes, ()
    execution.decision, execution.decided_votes = event, decided


@DECISION_HANDLERS.of(stored.RetryScheduled)
def _retry_scheduled(fold: SessionFold, event: stored.RetryScheduled, at: int) -> None:
    if fold.execution is not None:
        fold.execution.retry = event


@DECISION_HANDLERS.of(stored.WaitStarted)
def _wait_started(fold: SessionFold, event: stored.WaitStarted, at: int) -> None:
    fold.wait_origin = fold.phase
    if fold.execution is not None:
        fold.execution.wait, fold.execution.waits = event, waits_of(fold, event, at)
        fold.execution.productive = True
        fold.execution.unopened += event.kind == "resources"
    if fold.step is not None:
        fold.step.clock = fold.step.clock.stopped(at)


@DECISION_HANDLERS.of(stored.WaitEnded)
def _wait_ended(fold: SessionFold, event: stored.WaitEnded, at: int) -> None:
    if fold.execution is None:
        return
    # A person's verdict comes while no process runs the session: the clock starts with the next segment.
    if fold.step is not None and not event.is_verdict:
        fold.step.clock = fold.step.clock.started(at)
    wait, fold.execution.wait = fold.execution.wait, None
    fold.execution.waits = answered(fold.execution.waits, at) if event.is_verdict else ()
    fold.execution.waited = event.reason == "due" and wait is not None and wait.kind in {"retry", "tool_retry"}
    if wait is not None:
        move_call(fold, wait.position, event, suspension=None)
