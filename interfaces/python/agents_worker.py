"""A worker for sessions of agents and runs of workflows: which of them carries on which stream."""

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from steptrail.domain.agent.ids import STREAM_PREFIX, checked_session_id
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.python.flow_or_agent import is_flow
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.given import an_agent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, OnLeft, Work
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.looking import Looking
from steptrail.runtime.kernel.room import Room
from steptrail.runtime.kernel.woken import Woken
from steptrail.runtime.kernel.worker import Worker

if TYPE_CHECKING:
    from steptrail.interfaces.python.flow import Flow
    from steptrail.runtime.flow.result import FlowResult
    from steptrail.runtime.flow.workflow import BuiltWorkflow

__all__ = ["agents_worker"]


def agents_worker(
    environment: Environment,
    agents: "Sequence[AnyAgent | BuiltWorkflow]",
    *,
    room: Room,
    grace: float,
    strict: bool = False,
    on_left: OnLeft | None = None,
    on_update: OnUpdate | None = None,
) -> Worker:
    """Return the worker of these agents and workflows; see `Steptrail.work`."""
    if not agents:
        raise ConfigurationError("a worker needs the agents or workflows that it is to carry on: work(agent, ...)")
    if not (isfinite(grace) and grace >= 0):
        raise ConfigurationError(f"the grace of a worker is a number of seconds from 0, not {grace}")
    by_name: dict[str, list[AnyAgent]] = {}
    flows: dict[str, list[BuiltWorkflow]] = {}
    for given in agents:
        if is_flow(given):
            flows.setdefault(given.name, []).append(given)
        else:
            agent = an_agent(given)
            by_name.setdefault(agent.name, []).append(agent)

    def carry(row: RunSummary) -> Work | None:
        if row.stream.startswith(STREAM_PREFIX):
            versions = by_name.get(row.name)
            session = Session(environment, checked_session_id(row.session_id), None, on_update)
            return None if versions is None else partial(_go_on, session, versions, strict)
        built = flows.get(row.name) if row.stream.startswith("flow:") else None
        if built is None:
            return None
        from steptrail.interfaces.python.flow import Flow

        return partial(_go_on_with_flow, Flow(environment, row.session_id, None, on_update), built, strict)

    hands = Hands(environment, carry, room=room, grace=grace, on_left=on_left)
    topics = (*(f"agent:{name}" for name in by_name), *(f"flow:{name}" for name in flows))
    engine = environment.waking.engine if environment.waking is not None else None
    hearing = Looking(environment, topics) if engine is None else Woken(environment, engine, topics)
    return Worker(hands, hearing)


async def _go_on(session: Session, versions: Sequence[AnyAgent], strict: bool) -> RunResult[Any]:
    agent = versions[-1] if len(versions) == 1 else await _started_with(session, versions)
    return await session.resume(agent, strict=strict)


async def _started_with(session: Session, versions: Sequence[AnyAgent]) -> AnyAgent:
    """Return the agent whose fingerprint is the recorded one, or else the last."""
    recorded = (await session.state()).agent
    same = (agent for agent in versions if recorded is not None and agent.snapshot.fingerprint == recorded.fingerprint)
    return next(same, versions[-1])


async def _go_on_with_flow(handle: "Flow", versions: "Sequence[BuiltWorkflow]", strict: bool) -> "FlowResult":
    if len(versions) == 1:
        return await handle.resume(versions[-1], strict=strict)
    run = (await handle.state()).run
    same = (flow for flow in versions if run is not None and flow.digest == run.started.digest)
    return await handle.resume(next(same, versions[-1]), strict=strict)
