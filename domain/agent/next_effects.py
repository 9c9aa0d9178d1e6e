"""`next_effects(state, now)`: the very next effect of a session, from the state alone.

Running and resuming are this same function. After a pause, after a crash or on another machine, the state is folded
from the log and the function is called again. There is one function for each phase, and the order of its checks is
their precedence.
"""

from collections.abc import Callable

from steptrail.domain.agent.answer_to_judge import answer_to_judge
from steptrail.domain.agent.asking import hear
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.compacting import due_after_a_refusal, due_before_a_step
from steptrail.domain.agent.deadline import deadline_of
from steptrail.domain.agent.deciding import ends_with_an_answer, terminal_status
from steptrail.domain.agent.effects import (
    CallModel,
    Compact,
    Effect,
    KeepWaiting,
    Record,
    ResolveInstructions,
    RunCalls,
    RunHooks,
    ScheduleRetry,
    StartInference,
    TakeDecision,
)
from steptrail.domain.agent.events import ExecutionFinished, StepStarted, WaitEnded, WaitStarted
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.interruptions import model_interrupted
from steptrail.domain.agent.next_calls import close_step, paused, settle_calls, starts_no_call, step_completed
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.waiting import outlasts_the_run
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.hooks.types import HookType
from steptrail.domain.instructions import InstructionsTime


def next_effects(state: AgentState, now: int) -> tuple[Effect, ...]:
    """Return the effects that are due; none when only a command can bring the session on.

    `now` is an instant in microseconds of UTC that never runs backwards inside a segment. Pure.
    """
    fold = state.fold
    look = _PHASES.get(fold.phase)
    due = None if fold.execution is None or look is None else look(state, fold.execution, now)
    return () if due is None else (due,)


def _recovering(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    # What was paid for gets its hooks and its verdict: they start nothing that a limit is for.
    spares = _only_hooks_are_left(state.fold) and not _kills_its_process(execution)
    guards = TakeDecision(len(execution.steps), DecisionPhase.RESUME, spares_limits=spares)
    return _end_of_the_run_in(execution.wait, state, execution, now) or guards


def _only_hooks_are_left(fold: SessionFold) -> bool:
    """Tell whether the phase that a recovery goes back to starts no model call and no tool before the next decision."""
    if fold.goes_back_to is Phase.SETTLING:
        return fold.step is not None and starts_no_call(fold.step) and due_after_a_refusal(fold) is None
    return fold.goes_back_to in {Phase.BOUNDARY, Phase.STOPPING}


def _kills_its_process(execution: ExecutionFold, *, more: int = 0) -> bool:
    """Tell whether so many segments in a row as its limit allows, and as many `more`, ended without progress."""
    most = execution.agent.limits.binding("max_unproductive_segments")
    return most is not None and execution.unproductive_segments >= most + more


def _end_of_the_run_in(
    wait: WaitStarted | None, state: AgentState, execution: ExecutionFold, now: int
) -> TakeDecision | None:
    """Return the decision to stop at the end of a wait for a retry, if the run's time is over by then; else None.

    The run does not wait for an end that is certain: the decision is taken at once, as of the end of the wait.
    """
    if wait is None or wait.until is None or wait.kind not in {"retry", "tool_retry"}:
        return None
    is_over = outlasts_the_run(execution, wait.until, now) and not _is_for_nobody(wait, execution)
    return TakeDecision(len(execution.steps), DecisionPhase.RESUME, wait.until) if is_over else None


def _boundary(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    if (pause := _pause(state, execution, now)) is not None:
        return pause
    step = len(execution.steps)
    if _kills_its_process(execution):
        # It may be the hooks that kill the process, so the guard decides before they run once more.
        return TakeDecision(step, DecisionPhase.BOUNDARY)
    due = [HookType.EXECUTION_START] if step == 0 else [HookType.AFTER_STEP]
    if step > 0 and execution.steps[-1].has_errors:
        due.append(HookType.ON_ERROR)
    due.append(HookType.BEFORE_STEP)
    for hook_type in due:
        if (hooks := _hooks_due(execution, hook_type, step)) is not None:
            return hooks
    return TakeDecision(step, DecisionPhase.BOUNDARY)


def _continuing(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    step = len(execution.steps)
    if execution.stop_request is not None or execution.votes:
        # A stop was asked for after the decision, or instructions failed. So another decision is taken before a step.
        return TakeDecision(step, DecisionPhase.BOUNDARY)
    if (pause := _pause(state, execution, now)) is not None:
        return pause
    if execution.waited:
        # A limit may have been reached during the wait, so the guards decide before a step starts.
        return TakeDecision(step, DecisionPhase.RESUME)
    if execution.retry is None and (retry := _granted_retry(state)) is not None:
        return retry
    # By the log and not by the clock: whether a wait is recorded does not hang on how busy the process is.
    due_at = execution.retry.due_at if execution.retry is not None and execution.consecutive_failures else 0
    if due_at and due_at > state.fold.updated_at:
        wait = WaitStarted(kind="retry", until=due_at)
        return _end_of_the_run_in(wait, state, execution, now) or Record((wait,))
    if execution.agent.compaction and (plan := due_before_a_step(state.fold, execution)) is not None:
        return Compact(plan, deadline_of(execution, None, now))
    if execution.agent.instructions and (due := _instructions_due(execution)):
        # The functions may have used up the time of the run: then its limit decides.
        is_late = outlasts_the_run(execution, now, now)
        return TakeDecision(step, DecisionPhase.BOUNDARY) if is_late else ResolveInstructions(step + 1, due)
    return Record((StepStarted(number=step + 1),))


def _instructions_due(execution: ExecutionFold) -> tuple[str, ...]:
    """Return the names of the instructions that are asked for before the next step."""
    asked, specs = execution.instructed, execution.agent.instructions
    return tuple(spec.name for spec in specs if spec.every is InstructionsTime.STEP or spec.name not in asked)


def _granted_retry(state: AgentState) -> ScheduleRetry | None:
    step = state.current_step if state.retry_is_granted else None
    if step is None:
        return None
    error = step.errors[0].error
    asked = [e.error.retry_after for e in step.errors if e.error.retry_after is not None]
    return ScheduleRetry(error.type, state.error_context.consecutive_failures, max(asked, default=None))


def _step(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    step = state.fold.step
    if step is None:
        return None
    if execution.stop_request is not None or step.inference_given_up or step.forbidden_by is not None:
        return Record((step_completed(execution, step, now),))
    if (pause := _pause(state, execution, now)) is not None:
        return pause
    if execution.waited:
        return TakeDecision(len(execution.steps), DecisionPhase.RESUME)
    if (hooks := _hooks_due(execution, HookType.BEFORE_INFERENCE, step.number)) is not None:
        return hooks
    return StartInference(step.number, step.inference_attempt + 1)


def _inferring(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    step = state.fold.step
    if step is None:
        return None
    if step.inference_in_doubt:
        return Record((model_interrupted("crash"),))
    deadline = deadline_of(execution, step, now)
    if deadline is not None and deadline.at <= now:
        return Record((model_interrupted(deadline),))
    return CallModel(step.number, deadline)


def _settling(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    step = state.fold.step
    if step is None:
        return None
    if execution.waited and execution.stop_request is None:
        return _pause(state, execution, now) or TakeDecision(len(execution.steps), DecisionPhase.RESUME)
    plan = due_after_a_refusal(state.fold) if step.inference_error is not None else None
    if plan is not None and execution.stop_request is None:
        return _pause(state, execution, now) or Compact(plan, deadline_of(execution, step, now))
    if step.reply is not None and (hooks := _hooks_due(execution, HookType.AFTER_INFERENCE, step.number)) is not None:
        return _pause(state, execution, now) or hooks
    if (next_call := settle_calls(execution, step, now, state.fold.updated_at)) is not None:
        match next_call:
            case Record(events=(WaitStarted() as wait,)) if end := _end_of_the_run_in(wait, state, execution, now):
                return end
            case RunHooks() | RunCalls(running=()):
                return _pause(state, execution, now) or next_call
            case _:  # a pause lets the calls that run come to their end
                return next_call
    if step.output_mode is not None and (judged := answer_to_judge(execution, step)) is not None:
        return _pause(state, execution, now) or judged
    return Record((step_completed(execution, step, now),))


def _stopping(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    outcome = state.last_continuation_outcome
    if outcome is None:
        return None
    if state.fold.step is not None:
        return Record(close_step(execution, state.fold.step, f"the run stops ({outcome.stop_reason.value})", now))
    step = len(execution.steps)
    preventable = not outcome.is_forbidden()
    if preventable and state.has_unanswered_input:
        return TakeDecision(step, DecisionPhase.BOUNDARY)
    if (hooks := _hooks_due(execution, HookType.STOP, step)) is not None:
        return _pause(state, execution, now) or hooks
    asked_on = any(vote.decision is not ContinuationDecision.ALLOW for vote in execution.votes)
    if preventable and asked_on and execution.decision is not None and execution.decision.phase != "stop":
        return TakeDecision(step, DecisionPhase.STOP)
    if (hooks := _hooks_due(execution, HookType.EXECUTION_END, step)) is not None:
        return _pause(state, execution, now) or hooks
    finished = ExecutionFinished(
        status=terminal_status(state, outcome),
        stop_reason=outcome.stop_reason,
        resolved_by=outcome.resolved_by,
        answered=ends_with_an_answer(state, execution),
    )
    return Record((finished,))


def _waiting(state: AgentState, execution: ExecutionFold, now: int) -> Effect | None:
    wait = execution.wait
    # A person settled it while the run was paused, or a resume brought another model.
    if wait is None or _is_for_nobody(wait, execution):
        return Record((WaitEnded(reason="settled"),))
    if execution.stop_request is not None:
        return Record((WaitEnded(reason="stop", by=execution.stop_request.by),))
    is_for_answers = wait.kind in {"approval", "external"}
    due = hear(state.fold.step, wait.kind, now) if is_for_answers else _wait_on(state, execution, wait, now)
    if isinstance(due, KeepWaiting) and (pause := _pause(state, execution, now)) is not None:
        return pause
    return due


def _wait_on(state: AgentState, execution: ExecutionFold, wait: WaitStarted, now: int) -> Record | KeepWaiting:
    """Return the end of a wait for a time or for calls, or more waiting."""
    if wait.until is not None and now >= wait.until:
        return Record((WaitEnded(reason="due"),))
    parked = {call.position for call in state.tool_executions if call.phase is CallPhase.PARKED}
    is_settled = wait.kind == "unknown_outcome" and wait.position not in parked
    if is_settled or (wait.kind == "child" and not _waits_for_children(state, execution, now)):
        return Record((WaitEnded(reason="settled"),))
    return KeepWaiting(wait.kind, wait.until)


def _is_for_nobody(wait: WaitStarted, execution: ExecutionFold) -> bool:
    """Tell whether another model is asked now than the one that was to be tried again, whose failures do not count."""
    return wait.kind == "retry" and execution.consecutive_failures == 0


def _waits_for_children(state: AgentState, execution: ExecutionFold, now: int) -> bool:
    """Tell whether nothing else of the step can go on before one of the sessions that its calls run does."""
    step = state.fold.step
    match None if step is None else settle_calls(execution, step, now, state.fold.updated_at):
        case Record(events=(WaitStarted(kind="child"),)):
            return True
        case _:
            return False


def _pause(state: AgentState, execution: ExecutionFold, now: int) -> Record | None:
    asked = execution.pause_request
    if asked is None or execution.stop_request is not None:
        return None
    return Record((paused(state.fold.step, now, by=asked.by, reason=asked.reason),))


def _hooks_due(execution: ExecutionFold, hook_type: HookType, step: int) -> RunHooks | None:
    """Return the hooks of this type that have not run for the step; None when there are none.

    A stop by the guard against crash loops has none that kill the process once more: the run would never end.
    """
    agent = execution.agent
    due = agent.hooks and agent.has_hooks(hook_type) and (hook_type, step, None) not in execution.hooks_ran
    return RunHooks(hook_type, step) if due and not _kills_its_process(execution, more=1) else None


_PHASES: dict[Phase, Callable[[AgentState, ExecutionFold, int], Effect | None]] = {
    Phase.BOUNDARY: _boundary,
    Phase.CONTINUING: _continuing,
    Phase.STEP: _step,
    Phase.INFERRING: _inferring,
    Phase.SETTLING: _settling,
    Phase.STOPPING: _stopping,
    Phase.WAITING: _waiting,
    Phase.RECOVERING: _recovering,
}
"""Phase -> the function that says what is due in it. In the other phases nothing is until a command comes."""
