"""What is left of a run's time, and whose fault it is that a call took too long."""

from steptrail.domain.agent.deadline import deadline_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo, ErrorType

__all__ = ["is_out_of_time", "seconds_left", "shortest"]

_EARLY_SECONDS, _EARLY_SHARE = 0.05, 0.01


def seconds_left(state: AgentState) -> float | None:
    """Return the seconds until the first time limit of the execution is reached; None when none stops it."""
    fold = state.fold
    deadline = None if fold.execution is None else deadline_of(fold.execution, fold.step, state.as_of)
    return None if deadline is None else (deadline - state.as_of) / 1e6


def is_out_of_time(error: ErrorInfo, seconds: float, timeout: float | None) -> bool:
    """Tell whether code that was given `timeout` raised `error`, after `seconds`, because that time was up.

    Code that keeps its own time wakes up a little before or after the deadline. No microsecond is to decide whether the
    deadline cut it or it failed: a timeout that it raises in the last 1 % or 50 ms of its time is the deadline's.
    """
    early = max(_EARLY_SECONDS, (timeout or 0.0) * _EARLY_SHARE)
    return error.type is ErrorType.TIMEOUT and timeout is not None and seconds >= timeout - early


def shortest(*seconds: float | None) -> float | None:
    """Return the smallest number given; None when none is."""
    return min((each for each in seconds if each is not None), default=None)
