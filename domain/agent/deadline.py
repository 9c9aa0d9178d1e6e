"""The deadline of what a run does: the instant at which the first of its time limits is reached."""

from math import ceil

from msgspec import Struct

from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.shared.run import CutBy


class Deadline(Struct, frozen=True):
    """The instant, in microseconds of UTC, beyond which a call does not run, and which time is up then."""

    at: int
    cut_by: CutBy


def deadline_of(execution: ExecutionFold, step: StepFold | None, now: int) -> Deadline | None:
    """Return the run's deadline as it stands at `now`; None when no limit stops the run.

    While a step runs it is fixed, and it has come where a cut has put the clocks forward to it.
    """
    limits, first = execution.agent.limits, None
    if (wall := limits.binding("timeout")) is not None:
        first = Deadline(now + _microseconds(wall) - execution.wall.us(now), CutBy.TIMEOUT)
    if (active := limits.binding("cumulative_timeout")) is not None:
        spent = execution.active_us + (step.clock.us(now) if step is not None else 0)
        at = now + _microseconds(active) - spent
        if first is None or at < first.at:
            first = Deadline(at, CutBy.CUMULATIVE_TIMEOUT)
    return first


def _microseconds(seconds: float) -> int:
    """Return the first whole microsecond at which a limit of so many seconds is reached."""
    whole = ceil(seconds * 1e6)
    return whole if whole / 1e6 >= seconds else whole + 1
