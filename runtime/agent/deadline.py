"""Computes how much time a run and its calls have left, and which of two deadlines cuts a call off."""

from steptrail.domain.agent.deadline import Deadline, deadline_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.shared.run import CutBy

EARLY_SECONDS = 0.05
"""Seconds. Two deadlines that are as near to each other as this count as one, because no timer is more exact."""

_EARLY_SHARE = 0.01


def seconds_left(state: AgentState) -> float | None:
    """Return the seconds until the first time limit of the execution is reached; None when there is no limit."""
    fold = state.fold
    return within(None if fold.execution is None else deadline_of(fold.execution, fold.step, state.as_of), state.as_of)


def within(deadline: Deadline | None, now: int) -> float | None:
    """Return the seconds from `now` to a deadline, at least 0; None without a deadline."""
    return None if deadline is None else max(0, deadline.at - now) / 1e6


def first_of(timeout: float | None, run: Deadline | None, now: int) -> Deadline | None:
    """Return the deadline of a call that begins `now`: that of its tool's `timeout` (seconds), or that of the run.

    If both come at the same time, as far as a timer can tell, it is the run's: a run without time left does not go on.
    None when there is neither.
    """
    if timeout is None or (run is not None and run.at <= now + (timeout + EARLY_SECONDS) * 1e6):
        return run
    return Deadline(now + round(timeout * 1e6), CutBy.TOOL_TIMEOUT)


def is_out_of_time(error: ErrorInfo, seconds: float, timeout: float | None) -> bool:
    """Tell whether code that was given `timeout` raised `error`, after `seconds`, because that time was up.

    Code with a timer of its own wakes up a little before or after the deadline. A microsecond must not decide whether
    the deadline cut it off or it failed. So a timeout that it raises in the last 1 % or 50 ms counts as the deadline.
    """
    early = max(EARLY_SECONDS, (timeout or 0.0) * _EARLY_SHARE)
    return error.type is ErrorType.TIMEOUT and timeout is not None and seconds >= timeout - early


def shortest(*seconds: float | None) -> float | None:
    """Return the smallest of the numbers that are not None; None when there is none."""
    return min((each for each in seconds if each is not None), default=None)


def is_time_above(own: float | None, given: float | None, left: float | None) -> bool:
    """Tell whether the time that was up is that of the effect above, and not a limit of the run below it.

    `own` is what the run allows itself, `given` what it had, and `left` what the effect had left, in seconds; None
    without a limit. When both come at the same time, as far as a timer can tell, it is that of the effect.
    """
    if own is not None and left is not None and left <= own + EARLY_SECONDS:
        return True
    return given is not None and (own is None or given < own)
