"""Cumulative execution time from a stored stream: the active time of every execution, and of the open step.

Folded from durations and instants alone, without the rest of the state; a pause or a wait takes no active time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from steptrail.domain.agent import events as stored
from steptrail.domain.instants import seconds_between
from steptrail.domain.kernel.record import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionTime:
    """Active seconds of one execution: of its recorded steps, and of the step that is open at the end of the stream."""

    execution_id: str
    recorded_seconds: float = 0.0
    open_step_seconds: float = 0.0

    @property
    def cumulative_seconds(self) -> float:
        """Both together."""
        return self.recorded_seconds + self.open_step_seconds


@dataclass(slots=True)
class _Clock:
    recorded: float = 0.0
    counted: float = 0.0
    since: int | None = None
    in_step: bool = False
    waiting: bool = False

    def stop(self, at: int) -> None:
        self.counted, self.since = self.open_seconds(at), None

    def open_seconds(self, at: int) -> float:
        running = seconds_between(self.since, at) if self.since is not None and self.in_step else 0.0
        return self.counted + running


def project_execution_time(records: Iterable[Recorded[stored.AgentEvent]]) -> dict[str, ExecutionTime]:
    """Return the active time of every execution of a session, by execution id, as of its newest record."""
    times: dict[str, ExecutionTime] = {}
    execution, clock = "", _Clock()
    for record in records:
        match record.event:
            case stored.ExecutionStarted(execution_id=started):
                execution, clock = started, _Clock()
            case stored.StepStarted():
                clock.in_step, clock.counted, clock.since = True, 0.0, record.at
            case stored.StepCompleted(duration_seconds=seconds):
                clock = _Clock(recorded=clock.recorded + seconds)
            case stored.ExecutionPaused(step_seconds=seconds):
                clock.counted, clock.since = clock.counted + seconds, None
            case stored.ExecutionResumed(interrupted_seconds=seconds):
                clock.counted, clock.since = clock.counted + seconds, record.at
            case stored.WaitStarted():
                clock.stop(record.at)
                clock.waiting = True
            case stored.ContinuationEvaluated(phase="resume", should_continue=True) if clock.waiting:
                clock.stop(record.at)
            case stored.WaitEnded() as ended:
                clock.waiting = False
                if clock.since is None and not ended.is_verdict:
                    clock.since = record.at
            case stored.SessionScored():
                continue  # nobody is at work then
            case _:
                pass
        if execution:
            times[execution] = ExecutionTime(
                execution_id=execution,
                recorded_seconds=clock.recorded,
                open_step_seconds=clock.open_seconds(record.at),
            )
    return times
