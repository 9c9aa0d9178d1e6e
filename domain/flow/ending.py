"""The end of a run: its status, its stop reason, and what it is resolved by."""

from steptrail.domain.flow.events import ExecutionFinished, FlowLimit, LimitReached, NodeFailed, StepAnswered
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.shared.run import ExecutionStatus, StopReason

_BY_FAILURE = {
    FailureClass.BLOCKED: StopReason.GUARD,
    FailureClass.INCOMPLETE: StopReason.FINISH_REASON,
    FailureClass.BUDGET: StopReason.TOKEN_LIMIT,
}
_BY_LIMIT: dict[FlowLimit, tuple[StopReason, str]] = {
    "max_visits": (StopReason.STEPS_LIMIT, "VisitLimit"),
    "timeout": (StopReason.TIME_LIMIT, "RunTimeLimit"),
    "cumulative_timeout": (StopReason.TIME_LIMIT, "RunTimeLimit"),
    "step_timeout": (StopReason.TIME_LIMIT, "StepTimeout"),
    "max_input_tokens": (StopReason.TOKEN_LIMIT, "RunBudget"),
    "max_output_tokens": (StopReason.TOKEN_LIMIT, "RunBudget"),
    "max_total_tokens": (StopReason.TOKEN_LIMIT, "RunBudget"),
    "max_cost_usd": (StopReason.GUARD, "RunBudget"),
    "crash_loop": (StopReason.GUARD, "CrashLoopLimit"),
}


def finished(run: RunFold) -> ExecutionFinished:
    """Return the end of a run in which nothing runs any more."""
    match run.ended_by:
        case None:
            status, reason, by = ExecutionStatus.COMPLETED, StopReason.COMPLETED, "WorkDone"
        case NodeFailed() as event:
            status, reason = ExecutionStatus.FAILED, _reason(event, run)
            by = "CriticalNode" if event.error.tier == "node" else "RunPolicy"
        case LimitReached(limit=limit):
            status, (reason, by) = ExecutionStatus.FAILED, _BY_LIMIT[limit]
        case StepAnswered():
            status, reason, by = ExecutionStatus.STOPPED, StopReason.USER_REQUESTED, "StepControl"
        case _:
            status, reason, by = ExecutionStatus.STOPPED, StopReason.USER_REQUESTED, "UserStop"
    return ExecutionFinished(
        status=status,
        stop_reason=reason,
        resolved_by=by,
        answered=status is ExecutionStatus.COMPLETED,
        recorded_errors=len(run.errors),
    )


def _reason(event: NodeFailed, run: RunFold) -> StopReason:
    failure, error = event.error.failure, event.error
    # What has no price is not even begun under a limit on cost.
    if failure in {FailureClass.BUDGET, FailureClass.CONFIG} and error.details.get("limit") == "max_cost_usd":
        return StopReason.GUARD
    if failure in _BY_FAILURE:
        return _BY_FAILURE[failure]
    is_retryable = error.error is None or error.error.retryable
    policy = run.node(event.node, event.item).retry
    is_used_up = 1 < policy.max_attempts <= error.attempt
    # A reason of its own, because more tries might have helped.
    is_limit = is_used_up and policy.covers(failure, is_retryable=is_retryable)
    return StopReason.RETRY_LIMIT if is_limit else StopReason.ERROR
