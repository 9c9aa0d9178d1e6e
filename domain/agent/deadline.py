"""The deadline of what a run does: the instant at which the first of its time limits is reached."""

from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.continuation.limits import LimitName, Limits

__all__ = ["deadline_of"]


def deadline_of(execution: ExecutionFold, step: StepFold | None, now: int) -> int | None:
    """Return the deadline, in microseconds of UTC; None when no limit stops the run. While a step runs it is fixed."""
    limits = execution.agent.limits
    wall = _microseconds(limits, "timeout", limits.timeout)
    active = _microseconds(limits, "cumulative_timeout", limits.cumulative_timeout)
    spent = execution.active_us + (step.active_us(now) if step is not None else 0)
    instants = (None if wall is None else execution.wall_from + wall, None if active is None else now + active - spent)
    return min((each for each in instants if each is not None), default=None)


def _microseconds(limits: Limits, name: LimitName, seconds: float | None) -> int | None:
    return None if seconds is None or limits.is_shadow(name) else round(seconds * 1e6)
