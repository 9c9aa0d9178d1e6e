"""The rest of a run's time: the deadline of each model and tool call."""

from steptrail.domain.agent.state import AgentState

__all__ = ["seconds_left", "shortest"]


def seconds_left(state: AgentState) -> float | None:
    """Return the seconds until the first time limit of the execution is reached; None when none stops it."""
    agent = state.agent
    if agent is None:
        return None
    limits = agent.limits
    wall = None if limits.is_shadow("timeout") else limits.timeout
    active = None if limits.is_shadow("cumulative_timeout") else limits.cumulative_timeout
    return shortest(
        None if wall is None else wall - state.elapsed_seconds,
        None if active is None else active - state.cumulative_execution_seconds,
    )


def shortest(*seconds: float | None) -> float | None:
    """Return the smallest number given; None when none is."""
    return min((each for each in seconds if each is not None), default=None)
