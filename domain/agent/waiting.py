"""Tells for which waits a process stays, and which waits would last longer than the run may.

A longer wait ends the segment. The wall clock of the run starts again when it is resumed.
"""

from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.instants import seconds_between

_LEFT = frozenset({"approval", "child", "external", "resources"})


def is_short_wait(limits: Limits, until: int, now: int) -> bool:
    """Tell whether a wait from `now` to `until` is short enough for the process to stay (microseconds of UTC)."""
    return seconds_between(now, until) <= limits.longest_wait


def owner_stays_for(limits: Limits, kind: str, until: int | None, now: int) -> bool:
    """Tell whether the owner of a session stays for a wait of this kind; otherwise it lets the session rest."""
    # However soon a question expires, the run waits for a person. A child may wait for one too. Resources are opened
    # once a segment, so another try is another segment.
    return until is not None and kind not in _LEFT and is_short_wait(limits, until, now)


def is_sat_out(execution: ExecutionFold, until: int, now: int) -> bool:
    """Tell whether the owner stays for a wait, and the run goes on after it."""
    return is_short_wait(execution.agent.limits, until, now) and not outlasts_the_run(execution, until, now)


def outlasts_the_run(execution: ExecutionFold, until: int, now: int) -> bool:
    """Tell whether a wait, for which the owner would stay, would end after the limit on the run's wall time."""
    wall = execution.agent.limits.binding("timeout")
    if wall is None or not is_short_wait(execution.agent.limits, until, now):
        return False
    return execution.wall.us(until) / 1e6 >= wall
