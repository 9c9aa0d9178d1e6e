"""Settles the tool calls of a step in the order of the model's reply, and closes steps.

The phase of one call says what is due for it (`call_phases`). This module says what is due for all calls of a step
together. Calls that an earlier segment left in doubt are closed first. Then calls that stand next to each other and may
run at the same time form a group. The hooks about all calls of a group run before the first of them starts, and the
calls after a group wait until the last of it has ended. A call that a person must approve runs alone. When it is the
turn of such a call, all questions about the calls that are left are asked, and the run waits until none is open.

A reply may ask for thousands of calls, and what is due is asked again after each of them. So calls for which nothing is
due are passed over by their phase alone.
"""

from collections.abc import Iterable

from steptrail.domain.agent.asking import ask, must_ask, who_demands
from steptrail.domain.agent.call_phases import CANCELLABLE, CallPhase
from steptrail.domain.agent.call_starts import no_room_for
from steptrail.domain.agent.deadline import deadline_of
from steptrail.domain.agent.effects import Effect, Record, RunCalls, RunHooks, ScheduleToolRetry
from steptrail.domain.agent.events import AgentEvent, ExecutionPaused, StepCompleted, ToolCallCancelled, WaitStarted
from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.agent.fold_step import errors_of
from steptrail.domain.agent.interruptions import call_interrupted, has_tries_left, model_interrupted
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.hooks.types import HookType
from steptrail.domain.shared.requests import Request

_STARTABLE = frozenset({CallPhase.NEW, CallPhase.APPROVED, CallPhase.AGAIN, CallPhase.RETRYING})
"""The phases in which a call may start next. In the other phases, a call has ended or waits for something."""

_RAN = frozenset({CallPhase.COMPLETED, CallPhase.FAILED, CallPhase.RETRYABLE, CallPhase.INTERRUPTED})
"""The phases in which hooks run after a call. A call that did not run has none."""
_TO_COME = CANCELLABLE - {CallPhase.ANSWER, CallPhase.DEFERRED}
"""The phases in which a call waits for its turn. `answer_to_judge` says what is due for an answer, and a call that is
deferred holds up no other one."""
_DUE = _TO_COME | {CallPhase.PARKED}
_UNSETTLED = _TO_COME | {CallPhase.RUNNING, CallPhase.IN_DOUBT}
_OPEN = _UNSETTLED | {CallPhase.DEFERRED, CallPhase.PARKED, CallPhase.RETRYABLE}


def settle_calls(execution: ExecutionFold, step: StepFold, now: int, recorded_at: int) -> Effect | None:
    """Return the next effect for the tool calls of the step; None when all calls have ended."""
    if step.runs_no_calls:
        return _cancel_pending(step, "the reply was cut in the middle")
    stopping, phases = execution.stop_request, {call.phase for call in step.calls}
    if (step.forbidden_by is not None or CallPhase.FORBIDDEN in phases) and (forbidden := _forbidden(step)) is not None:
        return forbidden
    if CallPhase.IN_DOUBT in phases:
        in_doubt = _in_phase(step, CallPhase.IN_DOUBT)
        return Record(tuple(call_interrupted(execution, call, "crash") for call in in_doubt))
    if CallPhase.RETRYABLE in phases and stopping is None:
        for failed in _in_phase(step, CallPhase.RETRYABLE):
            # The tool may be another one by now, which is tried less often, or be gone: then the call has failed.
            if has_tries_left(execution, failed.name, failed.failures):
                return ScheduleToolRetry(failed.position)
    if CallPhase.RUNNING in phases:
        first = next(call for call in step.calls if call.phase in _UNSETTLED)
        return _run(execution, step, first, _in_phase(step, CallPhase.RUNNING), now)
    hooked = _due_hooks_after(execution, step) if execution.agent.hooks else set[int]()
    call = next((each for each in step.calls if each.phase in _DUE or each.position in hooked), None)
    if call is None:
        if CallPhase.DEFERRED not in phases:
            return None
        return ask(execution, step, now) if stopping is None else _cancel_pending(step, _stopped_by(stopping))
    if call.phase is CallPhase.PARKED or call.phase in _RAN:
        # Calls of the same group go first, which a crash may have cut off or which are tried again: no person is waited
        # for before they have ended, and without the crash they would have ended before the hooks of any of them.
        go_first = _STARTABLE if call.phase is CallPhase.PARKED else _TO_COME
        late = next((each for each in _group(execution, step, call) if each.phase in go_first), None)
        if late is not None and stopping is None:
            return _begin(execution, step, late, now, recorded_at)
        if call.phase is CallPhase.PARKED:
            return Record((WaitStarted(kind="unknown_outcome", position=call.position),))
        return RunHooks(HookType.POST_TOOL_USE, step.number, call.position)
    if stopping is not None:
        return _cancel_pending(step, _stopped_by(stopping))
    return _begin(execution, step, call, now, recorded_at)


def _stopped_by(stopping: Request) -> str:
    return f"{stopping.by} stopped the run"


def starts_no_call(step: StepFold) -> bool:
    """Tell whether no call of the step runs, or can start, any more."""
    return step.runs_no_calls or step.forbidden_by is not None or all(call.phase not in _OPEN for call in step.calls)


def _in_phase(step: StepFold, phase: CallPhase) -> list[ToolExecution]:
    return [call for call in step.calls if call.phase is phase]


def _forbidden(step: StepFold) -> Record | None:
    """Return the end of the calls that hooks have forbidden; None when there are none."""
    ends: list[AgentEvent] = []
    for call in step.calls:
        hook = step.forbidden_by or call.forbidden_by
        if hook is not None and call.phase in CANCELLABLE:
            ends.append(ToolCallCancelled(position=call.position, reason=f"the hook {hook} forbade it"))
    return Record(tuple(ends)) if ends else None


def _begin(execution: ExecutionFold, step: StepFold, first: ToolExecution, now: int, recorded_at: int) -> Effect:
    """Return the next effect for the group that begins with `first`: hooks, questions, the start, or a wait."""
    asks = must_ask(execution, step, first)
    if execution.agent.hooks:
        # A hook may hold, change or block any call that is left, so all their hooks run before the questions are asked.
        soon = [call for call in step.calls if call.phase in _TO_COME] if asks else _group(execution, step, first)
        if hooked := _without_hooks(execution, HookType.PRE_TOOL_USE, step, soon):
            return RunHooks(HookType.PRE_TOOL_USE, step.number, hooked[0].position)
    if asks:
        if external := _external_to_come(execution, step):
            return RunCalls(external, deadline=deadline_of(execution, step, now))
        return ask(execution, step, now)
    if first.phase is CallPhase.HELD and (refused := no_room_for(execution, first)) is not None:
        return Record((refused,))  # nobody is asked about it, and without a yes it cannot start
    group = _group(execution, step, first)
    # A call without a time is due at once.
    times = [(call.due_at or 0, call.position) for call in group if call.phase is not CallPhase.SUSPENDED]
    if not times:
        return Record((_wait_for_children(group),))
    due_at, position = min(times)
    if due_at > recorded_at:
        return Record((WaitStarted(kind="tool_retry", until=due_at, position=position),))
    return _run(execution, step, first, [], now)


def _external_to_come(execution: ExecutionFold, step: StepFold) -> tuple[int, ...]:
    """Return the external calls that are left and that nobody has to approve first: they are asked about as well."""
    tools = {spec.name for spec in execution.agent.tools if spec.external is not None}
    left = (call for call in step.calls if call.name in tools and call.phase in {CallPhase.NEW, CallPhase.APPROVED})
    return tuple(call.position for call in left if who_demands(execution, call) is None)


def _run(
    execution: ExecutionFold, step: StepFold, first: ToolExecution, running: list[ToolExecution], now: int
) -> RunCalls:
    """Return the start of the calls that are due in the group from `first` on, up to the limit with those that run."""
    positions = tuple(call.position for call in running)
    room, deadline = execution.agent.limits.max_concurrent_tools - len(running), deadline_of(execution, step, now)
    if room <= 0 or execution.stop_request is not None or execution.pause_request is not None:
        return RunCalls(running=positions, deadline=deadline)
    due, later, hooks = list[int](), list[int](), execution.agent.hooks
    for call in _group(execution, step, first):
        # A call whose hooks have not run yet is skipped: the hooks of a whole group run before any call of it starts.
        skip = hooks and _without_hooks(execution, HookType.PRE_TOOL_USE, step, [call])
        if call.phase in _STARTABLE and not skip:
            if call.due_at is not None and call.due_at > now:
                later.append(call.due_at)
            else:
                due.append(call.position)
                if len(due) == room:
                    return RunCalls(tuple(due), positions, None, deadline)
    return RunCalls(tuple(due), positions, min(later, default=None), deadline)


def _wait_for_children(suspended: list[ToolExecution]) -> WaitStarted:
    """Return the wait for the suspended call that can go on first; without an end when none of them has a time."""
    timed = [(each.until, call.position) for call in suspended if (each := call.suspension) and each.until is not None]
    until, position = min(timed) if timed else (None, suspended[0].position)
    return WaitStarted(kind="child", until=until, position=position)


def _group(execution: ExecutionFold, step: StepFold, first: ToolExecution) -> list[ToolExecution]:
    """Return the calls from `first` on that are not settled and may run at the same time."""
    group, after = [first], step.calls[first.position + 1 :]
    if after and first.hold is None and first.call.name in (tools := _beside_others(execution, step)):
        for call in after:
            if call.phase in _UNSETTLED:
                if call.hold is not None or call.call.name not in tools:
                    break
                group.append(call)
    return group


def _beside_others(execution: ExecutionFold, step: StepFold) -> frozenset[str]:
    """Return the names of the tools of the step whose calls may run at the same time as their neighbours."""
    agent, called = execution.agent, {call.call.name for call in step.calls}
    if agent.limits.max_concurrent_tools <= 1:
        return frozenset()
    asked_for = [spec for spec in agent.tools if spec.name in called]
    return frozenset(spec.name for spec in asked_for if spec.approval is None and spec.may_run_beside_others)


def _without_hooks(
    execution: ExecutionFold, hook_type: HookType, step: StepFold, calls: Iterable[ToolExecution]
) -> list[ToolExecution]:
    """Return the calls for which hooks are due. Those before a call run before its first start only."""
    if not execution.agent.has_hooks(hook_type):
        return []
    ran, is_before = execution.hooks_ran, hook_type is HookType.PRE_TOOL_USE
    return [
        call
        for call in calls
        if (hook_type, step.number, call.position) not in ran and not (is_before and call.attempt)
    ]


def _due_hooks_after(execution: ExecutionFold, step: StepFold) -> set[int]:
    """Return the positions of the calls that have run, and after which hooks are due."""
    ran = [call for call in step.calls if call.phase in _RAN and not call.is_answer]
    return {call.position for call in _without_hooks(execution, HookType.POST_TOOL_USE, step, ran)}


def _cancel_pending(step: StepFold, reason: str) -> Record | None:
    pending = [call.position for call in step.calls if call.phase in CANCELLABLE]
    return Record(tuple(ToolCallCancelled(position=i, reason=reason) for i in pending)) if pending else None


def close_step(execution: ExecutionFold, step: StepFold, reason: str, now: int) -> tuple[AgentEvent, ...]:
    """Return the events that end a step in the middle: calls in doubt are interrupted, and calls to come cancelled."""
    events: list[AgentEvent] = [model_interrupted("crash")] if step.inference_in_doubt else []
    for call in step.calls:
        if call.phase in {CallPhase.RUNNING, CallPhase.IN_DOUBT}:
            events.append(call_interrupted(execution, call, "stop"))
        elif call.phase in CANCELLABLE:
            events.append(ToolCallCancelled(position=call.position, reason=reason))
    return (*events, step_completed(execution, step, now))


def step_completed(execution: ExecutionFold, step: StepFold, now: int) -> StepCompleted:
    """Return the end of the step at `now`."""
    return StepCompleted(
        number=step.number, duration_seconds=step.clock.us(now) / 1e6, errors=len(errors_of(step)), cost=execution.cost
    )


def paused(step: StepFold | None, now: int, *, by: str, reason: str | None) -> ExecutionPaused:
    """Return the event that ends the segment at `now`, with the uncounted active time of the open step."""
    seconds = step.clock.running_us(now) / 1e6 if step is not None else 0.0
    return ExecutionPaused(by=by, reason=reason, step_seconds=seconds)
