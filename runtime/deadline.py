"""What is left of a run's time: the deadline of each model and tool call."""

from steptrail.domain.agent.state import AgentState

__all__ = ["seconds_left", "shortest"]


def seconds_left(state: AgentState) -> float | None:
    """Return the seconds until the first time limit of the execution is reached; nothing when it has none."""
    if state.agent is None:
        return None
    limits = state.agent.limits
    left = None if limits.timeout is None else limits.timeout - state.elapsed_seconds
    if limits.cumulative_timeout is None:
        return left
    return shortest(left, limits.cumulative_timeout - state.cumulative_execution_seconds)


def shortest(*seconds: float | None) -> float | None:
    """Return the smallest number given; nothing when none is."""
    return min((each for each in seconds if each is not None), default=None)
