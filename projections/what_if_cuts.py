"""The limits on time in a what-if: they also cut off what runs."""

from collections.abc import Sequence
from typing import NoReturn

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.deadline import Deadline, deadline_of
from steptrail.domain.agent.effects import Record, RunCalls, RunHooks
from steptrail.domain.agent.evolve import evolve_all, extend
from steptrail.domain.agent.interruptions import call_interrupted, model_interrupted
from steptrail.domain.agent.phases import Phase
from steptrail.domain.shared.run import SegmentEnd
from steptrail.projections.other_settings import OtherSettings, Parts, next_of, records_of

ENDS_OF_EFFECTS = (
    stored.InferenceCompleted,
    stored.InferenceFailed,
    stored.InferenceInterrupted,
    stored.ToolExecutionCompleted,
    stored.ToolExecutionFailed,
    stored.ToolExecutionInterrupted,
    stored.ToolExecutionSuspended,
)
"""The events with which something ends that runs until a deadline at the latest."""


def _deadlines(run: OtherSettings, at: int) -> tuple[Deadline | None, Deadline | None]:
    """Return the deadline by the recorded limits, and that by the other ones."""
    step, execution = run.state.fold.step, run.execution
    with run.as_recorded():
        recorded = deadline_of(execution, step, at)
    return recorded, deadline_of(execution, step, at)


def part_by_time(run: OtherSettings, event: stored.AgentEvent, at: int, version: int) -> None:
    """Part where what ends here would have been cut off, or was cut off and would not have been."""
    cut_at: int | None = None
    match event:
        case stored.ToolExecutionCompleted(settled_by=str()) | stored.ToolExecutionFailed(settled_by=str()):
            return  # by a person, while nothing runs
        case stored.InferenceInterrupted(reason="crash") | stored.ToolExecutionInterrupted(reason="crash"):
            return
        case stored.InferenceInterrupted() | stored.ToolExecutionInterrupted():
            cut_at = event.deadline
        case stored.ToolCallCancelled():
            cut_at = at  # before it could start
        case _:
            pass
    recorded, other = _deadlines(run, at)
    if recorded == other:
        return
    if other is not None and (other.at <= at if cut_at is None else other.at < cut_at):
        _cut_off(run, other, version)
    if cut_at is not None and (other is None or other.at > cut_at):
        raise Parts("the call would have gone on, which was cut off at the end of the run's time", version)


def part_by_a_crash(run: OtherSettings, event: stored.ExecutionResumed, version: int) -> None:
    """Part where a process that died would have cut off what it did before its last sign of life."""
    step = run.state.fold.step
    if step is None or step.clock.since is None or event.ended_by not in {SegmentEnd.CRASH, SegmentEnd.TAKE_OVER}:
        return
    seen = step.clock.since + round(event.interrupted_seconds * 1e6)
    recorded, other = _deadlines(run, seen)
    if recorded != other and other is not None and other.at <= seen:
        _cut_off(run, other, version)


def _cut_off(run: OtherSettings, deadline: Deadline, version: int) -> NoReturn:
    """Part with the end that a deadline makes: what runs is cut off."""
    state, execution = run.state, run.execution
    running = (call for call in state.tool_executions if call.phase is CallPhase.RUNNING)
    cut: list[stored.AgentEvent] = [call_interrupted(execution, call, deadline) for call in running]
    if state.phase is Phase.INFERRING:
        cut.append(model_interrupted(deadline))
    play_out(run, cut, max(deadline.at, state.fold.updated_at), version)
    raise Parts(f"it would have been cut off in step {state.open_step} ({deadline.cut_by})", version)


def play_out(run: OtherSettings, events: Sequence[stored.AgentEvent], at: int, version: int) -> None:
    """Part where the run ends after these events without anything from the world. Hooks change nothing of that."""
    state = evolve_all(run.state, records_of(at, run.state, events))
    while True:
        due = next_of(state, at)
        run.stop_of(due, at, version, state)
        match due:
            case RunHooks(hook_type=hook_type, step=step, position=position):
                events = (stored.HooksRan(hook_type=hook_type, step=step, position=position, hooks=()),)
            case Record() | RunCalls(starts=(_, *_)):
                events = run.concluded(due, at, state)
            case _:
                return
        state = extend(state, records_of(at, state, events))
