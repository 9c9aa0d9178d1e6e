"""Which waits for a time a run sits out, and which of those would outlast it.

A longer wait ends the segment, and the wall clock of whoever resumes the run begins anew.
"""

from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.instants import seconds_between

__all__ = ["is_sat_out", "is_stayed_for", "outlasts_the_run"]


def is_sat_out(limits: Limits, until: int, now: int) -> bool:
    """Tell whether a process stays for a wait that lasts from `now` until then."""
    return seconds_between(now, until) <= limits.longest_wait


def is_stayed_for(limits: Limits, kind: str, until: int | None, now: int) -> bool:
    """Tell whether a process stays for a wait of this kind, or leaves it to a person, a child, or a later process."""
    # An approval expires, and still it is a person who is waited for, however soon that is: also by a child.
    return until is not None and kind not in {"approval", "child"} and is_sat_out(limits, until, now)


def outlasts_the_run(execution: ExecutionFold, until: int, now: int) -> bool:
    """Tell whether a wait that is sat out would end when the run's wall time is over."""
    wall = execution.agent.limits.binding("timeout")
    if wall is None or not is_sat_out(execution.agent.limits, until, now):
        return False
    return execution.wall_us(until) / 1e6 >= wall
