"""A worker for sessions of agents and runs of workflows: which of them carries on which stream."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from steptrail.domain.agent.ids import STREAM_PREFIX, checked_session_id
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_plain_function, a_time
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.python.flow_or_agent import an_agent, is_flow
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, OnLeft, Work
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.looking import Looking
from steptrail.runtime.kernel.room import Room
from steptrail.runtime.kernel.woken import Woken
from steptrail.runtime.kernel.worker import Worker

if TYPE_CHECKING:
    from steptrail.runtime.flow.control import FlowControl
    from steptrail.runtime.flow.result import FlowResult
    from steptrail.runtime.flow.workflow import BuiltWorkflow


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
    a_time(grace, "the grace of a worker", from_zero=True)
    if on_left is not None:
        a_plain_function(on_left, "`on_left`", "a run", "the error")
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
            session = SessionControl(environment, checked_session_id(row.session_id), None, on_update)
            return None if versions is None else partial(_go_on, session, versions, strict)
        built = flows.get(row.name) if row.stream.startswith("flow:") else None
        if built is None:
            return None
        from steptrail.infrastructure.flow.means import flow_means
        from steptrail.runtime.flow.control import FlowControl

        run = FlowControl(environment, row.session_id, flow_means(), None, on_update)
        return partial(_go_on_with_flow, run, built, strict)

    hands = Hands(environment, carry, room=room, grace=grace, on_left=on_left)
    topics = (*(f"agent:{name}" for name in by_name), *(f"flow:{name}" for name in flows))
    engine = environment.waking.engine if environment.waking is not None else None
    hearing = Looking(environment, topics) if engine is None else Woken(environment, engine, topics)
    return Worker(hands, hearing)


async def _go_on(session: SessionControl, versions: Sequence[AnyAgent], strict: bool) -> AgentState:
    agent = versions[-1]
    if len(versions) > 1:
        begun = (await session.stream.existing()).committed.agent
        # Of those that differ in code alone, which no fingerprint shows, the last one has the mended code.
        newest = reversed(versions)
        same = (each for each in newest if begun is not None and each.snapshot.fingerprint == begun.fingerprint)
        agent = next(same, agent)
    return await session.resume(agent, strict=strict, obeys_pause=True)


async def _go_on_with_flow(handle: "FlowControl", versions: "Sequence[BuiltWorkflow]", strict: bool) -> "FlowResult":
    flow = versions[-1]
    if len(versions) > 1:
        run = (await handle.stream.existing()).committed.run
        newest = reversed(versions)
        flow = next((flow for flow in newest if run is not None and flow.digest == run.started.digest), flow)
    return await handle.resume(flow, strict=strict, obeys_pause=True)
