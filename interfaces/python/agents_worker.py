"""A worker for sessions of agents and runs of workflows: which of them carries on which stream."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
    from steptrail.domain.flow.state import FlowState
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
    versions: dict[str, dict[str, AnyAgent | BuiltWorkflow]] = {}
    # Of those that differ in code alone, which no digest shows, the last one has the mended code.
    for given in reversed(agents):
        if is_flow(given):
            versions.setdefault(f"flow:{given.name}", {}).setdefault(given.digest, given)
        else:
            agent = an_agent(given)
            versions.setdefault(f"{STREAM_PREFIX}{agent.name}", {}).setdefault(agent.snapshot.fingerprint, agent)

    def carry(row: RunSummary) -> Work | None:
        if (brought := versions.get(f"{row.kind}:{row.name}")) is None:
            return None
        if row.stream.startswith(STREAM_PREFIX):
            session = SessionControl(environment, checked_session_id(row.session_id), None, on_update)
            return partial(_go_on, session, brought, strict)
        from steptrail.infrastructure.flow.means import flow_means
        from steptrail.runtime.flow.control import FlowControl

        run = FlowControl(environment, row.session_id, flow_means(), None, on_update)
        return partial(_go_on, run, brought, strict)

    hands = Hands(environment, carry, room=room, grace=grace, on_left=on_left)
    topics = tuple(versions)
    engine = environment.waking.engine if environment.waking is not None else None
    hearing = Looking(environment, topics) if engine is None else Woken(environment, engine, topics)
    return Worker(hands, hearing)


async def _go_on(control: Any, versions: Mapping[str, object], strict: bool) -> object:
    """Go on with a run by the version that is recorded, or by the first of these, which was given last."""
    brought = next(iter(versions.values()))
    if len(versions) > 1:
        brought = versions.get(_recorded((await control.stream.existing()).committed), brought)
    return await control.resume(brought, strict=strict, obeys_pause=True)


def _recorded(state: "AgentState | FlowState") -> str:
    if isinstance(state, AgentState):
        return state.agent.fingerprint if state.agent is not None else ""
    return state.run.started.digest if state.run is not None else ""
