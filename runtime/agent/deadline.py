"""What is left of a run's time, and whose fault it is that a call took too long."""

from steptrail.domain.agent.deadline import Deadline, deadline_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.shared.run import CutBy

__all__ = ["EARLY_SECONDS", "first_of", "is_out_of_time", "seconds_left", "shortest", "within"]

EARLY_SECONDS = 0.05
"""Two deadlines that are as near to one another as this are one: no call is timed more exactly."""

_EARLY_SHARE = 0.01


def seconds_left(state: AgentState) -> float | None:
    """Return the seconds until the first time limit of the execution is reached; None when none stops it."""
    fold = state.fold
    return within(None if fold.execution is None else deadline_of(fold.execution, fold.step, state.as_of), state.as_of)


def within(deadline: Deadline | None, now: int) -> float | None:
    """Return the seconds that a deadline leaves at `now`, none below zero; None without one."""
    return None if deadline is None else max(0, deadline.at - now) / 1e6


def first_of(timeout: float | None, run: Deadline | None, now: int) -> Deadline | None:
    """Return what cuts off a call that begins `now`: its tool's own timeout, in seconds, or the deadline of the run.

    Where both come at the same time, give or take what no timer can tell apart, it is the deadline of the run: a run
    that has no time left goes on with nothing.
    """
    if timeout is None or (run is not None and run.at <= now + (timeout + EARLY_SECONDS) * 1e6):
        return run
    return Deadline(now + round(timeout * 1e6), CutBy.TOOL_TIMEOUT)


def is_out_of_time(error: ErrorInfo, seconds: float, timeout: float | None) -> bool:
    """Tell whether code that was given `timeout` raised `error`, after `seconds`, because that time was up.

    Code that keeps its own time wakes up a little before or after the deadline. No microsecond is to decide whether the
    deadline cut it or it failed: a timeout that it raises in the last 1 % or 50 ms of its time is the deadline's.
    """
    early = max(EARLY_SECONDS, (timeout or 0.0) * _EARLY_SHARE)
    return error.type is ErrorType.TIMEOUT and timeout is not None and seconds >= timeout - early


def shortest(*seconds: float | None) -> float | None:
    """Return the smallest number given; None when none is."""
    return min((each for each in seconds if each is not None), default=None)
