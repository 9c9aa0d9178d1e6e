"""How the tool calls of a step are settled, in the order of the model's reply, and how a step is closed.

What an earlier segment left in doubt is closed first. Then neighbours that may run at the same time do: the hooks about
each have run before the first of them starts, and what comes after them waits until the last has ended. A call that a
person must approve runs alone, after the answer.
"""

from steptrail.domain.agent.effects import Effect, ExecuteCalls, Record, RunHooks, ScheduleToolRetry, StartCall
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalRequested,
    ExecutionPaused,
    StepCompleted,
    ToolCallCancelled,
    WaitStarted,
)
from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.agent.ids import ExecutionId, effect_id
from steptrail.domain.agent.interruptions import call_interrupted, model_interrupted
from steptrail.domain.agent.step import CallStatus, Hold, ToolExecution
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason

__all__ = ["close_step", "paused", "settle_calls", "step_completed"]

_OBSERVED = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.INTERRUPTED})
"""What a tool that ran can end as; the PostToolUse hooks see these."""


def settle_calls(execution: ExecutionFold, step: StepFold, now: int) -> Effect | None:
    """Return what the step's tool calls need next; nothing when all are settled."""
    if step.reply is not None and step.reply.finish_reason is FinishReason.LENGTH:
        return _cancel_pending(step, "the reply was cut in the middle")
    if (forbidden := _forbidden(step)) is not None:
        return forbidden
    if in_doubt := [call for call in step.calls if call.in_doubt]:
        return Record(tuple(call_interrupted(execution, call, "crash") for call in in_doubt))
    stopping = execution.stop_request
    for call in step.calls:
        if call.awaits_retry and stopping is None:
            return ScheduleToolRetry(call.position)
    if running := tuple(call.position for call in step.calls if call.status is CallStatus.RUNNING):
        return _go_on(execution, step, running, now)
    for call in step.calls:
        if call.parked:
            return Record((WaitStarted(kind="unknown_outcome", position=call.position),))
        if call.status in _OBSERVED and (hooks := _hooks(execution, HookType.POST_TOOL_USE, step, call)) is not None:
            # Beside it a crash has cut some off: they run again first, as they would have ended first without it.
            late = _due_beside(execution, step, call) if stopping is None else None
            return hooks if late is None else _begin(execution, step, late, now)
        if call.status is CallStatus.PENDING:
            if stopping is not None:
                return _cancel_pending(step, f"{stopping.by} stopped the run")
            return _begin(execution, step, call, now)
    return None


def _forbidden(step: StepFold) -> Record | None:
    """Return the end of the calls that hooks did not let through."""
    pending = (
        (call, step.forbidden_by or call.forbidden_by) for call in step.calls if call.status is CallStatus.PENDING
    )
    ends = [
        ToolCallCancelled(position=call.position, reason=f"the hook {hook} forbade it")
        for call, hook in pending
        if hook is not None
    ]
    return Record(tuple(ends)) if ends else None


def _begin(execution: ExecutionFold, step: StepFold, first: ToolExecution, now: int) -> Effect:
    """Return what has to happen before `first` and whatever may run beside it start, or the start."""
    group = _group(execution, step, first)
    for call in group:
        # A call that has been started before has been through its hooks before.
        if call.attempt == 0 and (hooks := _hooks(execution, HookType.PRE_TOOL_USE, step, call)) is not None:
            return hooks
    if (asked := _ask(execution, step, first, now)) is not None:
        return asked
    free = [call for call in group if call.suspension is None]
    ready = next((call for call in free if call.due_at is None or call.due_at <= now), None)
    if ready is not None:
        return _start(execution, ready)
    if free:
        due_at, position = min((call.due_at or 0, call.position) for call in free)
        return Record((WaitStarted(kind="tool_retry", until=due_at, position=position),))
    return Record((_wait_for_children(group),))


def _wait_for_children(suspended: list[ToolExecution]) -> WaitStarted:
    """Return the wait for the first of them that has a time to go on at, or for any resume when none has."""
    timed = [(each.until, call.position) for call in suspended if (each := call.suspension) and each.until is not None]
    until, position = min(timed) if timed else (None, suspended[0].position)
    return WaitStarted(kind="child", until=until, position=position)


def _go_on(execution: ExecutionFold, step: StepFold, running: tuple[int, ...], now: int) -> Effect:
    """Return the start of one more call beside those that run; otherwise that they are to run on."""
    has_room = len(running) < execution.agent.limits.max_concurrent_tools
    if not has_room or execution.stop_request is not None or execution.pause_request is not None:
        return ExecuteCalls(running)
    due_at: list[int] = []
    for call in _group(execution, step, step.calls[running[0]]):
        # One that has not been through its hooks yet waits for its turn, so that they run before nothing of its group.
        is_next = call.status is CallStatus.PENDING and call.approval is None and call.suspension is None
        if not is_next or (call.attempt == 0 and _hooks(execution, HookType.PRE_TOOL_USE, step, call) is not None):
            continue
        if call.due_at is None or call.due_at <= now:
            return _start(execution, call)
        due_at.append(call.due_at)
    return ExecuteCalls(running, min(due_at, default=None))


def _group(execution: ExecutionFold, step: StepFold, first: ToolExecution) -> list[ToolExecution]:
    """Return the calls from `first` on that may run at the same time, of those that are not settled."""
    group = [first]
    if _may_run_beside_others(execution, first):
        for call in step.calls[first.position + 1 :]:
            if not call.is_settled:
                if not _may_run_beside_others(execution, call):
                    break
                group.append(call)
    return group


def _due_beside(execution: ExecutionFold, step: StepFold, ended: ToolExecution) -> ToolExecution | None:
    """Return the first call that ran, or would have run, beside one that has ended, and is due."""
    for call in step.calls[ended.position :]:
        if not _may_run_beside_others(execution, call):
            return None
        if call.status is CallStatus.PENDING:
            return call
    return None


def _may_run_beside_others(execution: ExecutionFold, call: ToolExecution) -> bool:
    spec = execution.agent.tool(call.name)
    if spec is None or spec.approval is not None or call.hold is not None:
        return False
    return spec.may_run_beside_others and execution.agent.limits.max_concurrent_tools > 1


def _start(execution: ExecutionFold, call: ToolExecution) -> Effect:
    spec, most, made = execution.agent.tool(call.name), _most_calls(execution), execution.tool_calls
    if call.attempt > 0:  # another try is not another call
        return StartCall(call.position)
    if most is not None and sum(made.values()) >= most:
        reason = f"the run has made all of its {most} tool calls"
        return Record((ToolCallCancelled(position=call.position, reason=reason, over_the_limit=True),))
    of_it = spec.max_calls if spec is not None else None
    if of_it is not None and made.get(call.name, 0) >= of_it:
        reason = f"the run has made all of its {of_it} calls of {call.name}"
        return Record((ToolCallCancelled(position=call.position, reason=reason),))
    return StartCall(call.position)


def _most_calls(execution: ExecutionFold) -> int | None:
    limits = execution.agent.limits
    return None if limits.is_shadow("max_tool_calls") else limits.max_tool_calls


def _hooks(execution: ExecutionFold, hook_type: HookType, step: StepFold, call: ToolExecution) -> RunHooks | None:
    due = execution.agent.has_hooks(hook_type) and (hook_type, step.number, call.position) not in execution.hooks_ran
    return RunHooks(hook_type, step.number, call.position) if due else None


def _ask(execution: ExecutionFold, step: StepFold, call: ToolExecution, now: int) -> Record | None:
    """Return what asks a person for a call that needs one. What was started before has been approved before."""
    asked, hold = call.approval, call.hold or _held_by_its_tool(execution, call)
    if hold is None or call.attempt > 0 or (asked is not None and not asked.is_open):
        return None
    if asked is not None:  # a command ended the wait for it
        return Record((WaitStarted(kind="approval", position=call.position, until=asked.expires_at),))
    until = now + round(hold.rule.expires * 1e6)
    requested = ApprovalRequested(
        approval_id=effect_id(ExecutionId(execution.id), step.number, call.position),
        position=call.position,
        tool=call.name,
        arguments_digest=call.arguments_digest,
        expires_at=until,
        asked_by=hold.asked_by,
        reason=hold.rule.reason,
    )
    return Record((requested, WaitStarted(kind="approval", position=call.position, until=until)))


def _held_by_its_tool(execution: ExecutionFold, call: ToolExecution) -> Hold | None:
    spec = execution.agent.tool(call.name)
    return Hold(spec.approval, call.name) if spec is not None and spec.approval is not None else None


def _cancel_pending(step: StepFold, reason: str) -> Record | None:
    pending = [call.position for call in step.calls if call.status is CallStatus.PENDING]
    return Record(tuple(ToolCallCancelled(position=i, reason=reason) for i in pending)) if pending else None


def close_step(execution: ExecutionFold, step: StepFold, reason: str, now: int) -> tuple[AgentEvent, ...]:
    """Return the events that end a step in the middle: what was in doubt is interrupted, what is left is cancelled."""
    events: list[AgentEvent] = []
    if step.inference_in_doubt:
        events.append(model_interrupted("crash"))
    for call in step.calls:
        if call.status is CallStatus.RUNNING:
            events.append(call_interrupted(execution, call, "stop"))
        elif call.status is CallStatus.PENDING:
            events.append(ToolCallCancelled(position=call.position, reason=reason))
    return (*events, step_completed(execution, step, now))


def step_completed(execution: ExecutionFold, step: StepFold, now: int) -> StepCompleted:
    """Return the end of the step at `now`."""
    return StepCompleted(
        number=step.number,
        duration_seconds=step.active_us(now) / 1e6,
        errors=error_count(step),
        cost=execution.cost,
    )


def paused(step: StepFold | None, now: int, *, by: str, reason: str | None) -> ExecutionPaused:
    """Return the end of the segment at `now`; it holds the open step's part of the active time."""
    seconds = step.running_us(now) / 1e6 if step is not None else 0.0
    return ExecutionPaused(by=by, reason=reason, step_seconds=seconds)


def error_count(step: StepFold) -> int:
    """Count what failed in the step."""
    failed_calls = sum(call.has_failed for call in step.calls)
    cut = step.reply is not None and bool(step.calls) and step.reply.finish_reason is FinishReason.LENGTH
    return failed_calls + (step.inference_error is not None) + cut
