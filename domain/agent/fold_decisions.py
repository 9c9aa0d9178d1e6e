"""Fold handlers of decisions and waits: votes are gathered and resolved, and a wait begins and ends."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_calls import move_call
from steptrail.domain.agent.standing import waits_of
from steptrail.domain.agent.votes import resolved_votes, take_votes
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.kernel.standing import answered

DECISION_HANDLERS = Handlers[SessionFold, [int], None]()


@DECISION_HANDLERS.of(stored.EvaluationsRecorded)
def _evaluations_recorded(fold: SessionFold, event: stored.EvaluationsRecorded, at: int) -> None:
    if fold.execution is not None:
        take_votes(fold.execution, event)


@DECISION_HANDLERS.of(stored.ContinuationEvaluated)
def _continuation_evaluated(fold: SessionFold, event: stored.ContinuationEvaluated, at: int) -> None:
    execution = fold.execution
    if execution is None:
        return
    execution.waited = False
    decided = resolved_votes(execution, event.phase)
    if event.phase == "resume":
        if event.should_continue:
            if execution.wait is not None and fold.step is not None:
                fold.step.clock = fold.step.clock.stopped(at)
            return
        execution.wait, execution.waits = None, ()
    execution.decision, execution.decided_votes = event, decided


@DECISION_HANDLERS.of(stored.ModelSwitched)
def _model_switched(fold: SessionFold, event: stored.ModelSwitched, at: int) -> None:
    if (execution := fold.execution) is not None:
        execution.agent, execution.switched = execution.agent.switched(), execution.switched + 1
        execution.switches, execution.consecutive_failures = (*execution.switches, event), 0


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
