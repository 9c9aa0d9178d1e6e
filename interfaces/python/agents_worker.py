"""A worker for sessions of agents: which agent carries on which session."""

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.given import an_agent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.worker import OnLeft, Work, Worker

__all__ = ["agents_worker"]


def agents_worker(
    environment: Environment,
    session_of: Callable[[str], Session],
    agents: Sequence[Agent],
    *,
    concurrency: int,
    grace: float,
    on_left: OnLeft | None = None,
) -> Worker:
    """Return the worker of these agents; see `Steptrail.work`."""
    if not agents:
        raise ConfigurationError("a worker needs the agents that it is to carry on sessions with: work(agent, ...)")
    if concurrency < 1:
        raise ConfigurationError(f"a worker carries on at least one session at once, not {concurrency}")
    if not (isfinite(grace) and grace >= 0):
        raise ConfigurationError(f"the grace of a worker is a number of seconds from 0, not {grace}")
    by_name: dict[str, list[Agent]] = {}
    for agent in map(an_agent, agents):
        by_name.setdefault(agent.name, []).append(agent)

    def carry(row: RunSummary) -> Work | None:
        versions = by_name.get(row.name) if row.stream.startswith(STREAM_PREFIX) else None
        return None if versions is None else partial(_go_on, session_of(row.session_id), versions)

    return Worker(environment, carry, concurrency=concurrency, grace=grace, on_left=on_left)


async def _go_on(session: Session, versions: Sequence[Agent]) -> RunResult:
    return await session.resume(versions[-1] if len(versions) == 1 else await _started_with(session, versions))


async def _started_with(session: Session, versions: Sequence[Agent]) -> Agent:
    """Return the agent whose fingerprint is the recorded one, or else the last."""
    recorded = (await session.state()).agent
    same = (agent for agent in versions if recorded is not None and agent.snapshot.fingerprint == recorded.fingerprint)
    return next(same, versions[-1])
