"""What a worker of a scenario does: it runs one command on the session and says how that ended."""

import asyncio
from pathlib import Path
from typing import Any

from steptrail.domain.errors import SteptrailError
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.sync import SyncSteptrail
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Fault, kill_at
from tests.processes.agents.agents import AGENTS, Options
from tests.processes.agents.site import SESSION, Site


async def _perform(trail: Steptrail, agent: AnyAgent, command: str, text: str) -> RunResult[Any]:
    session = trail.session(SESSION)
    match command:
        case "run":
            # What is said of a run is said once: whoever resumes it does not know it.
            said = {"tenant": "acme"} if agent.context is not None else None
            return await trail.run(agent, text, session=SESSION, context=said)
        case "send":
            return await session.send(agent, text)
        case _:
            return await session.resume(agent, take_over=command == "take-over")


def perform(
    command: str, agent_name: str, folder: Path, options: Options, text: str, fault: Fault | None
) -> dict[str, JsonValue]:
    """Run one command on the session and return how that ended."""
    site = Site(folder)
    agent = AGENTS[agent_name](site, options)

    def opened() -> Steptrail:
        # A SIGKILL loses nothing that has reached the operating system.
        return Steptrail(Environment(store=open_store(site.url, durability="normal"), reach=kill_at(fault)))

    async def asynchronous() -> RunResult[Any]:
        async with opened() as trail:
            try:
                return await _perform(trail, agent, command, text)
            finally:
                await agent.model.close()

    try:
        if command == "run-sync":
            with SyncSteptrail(opened) as trail:
                result = trail.run(agent, text, session=SESSION)
        else:
            result = asyncio.run(asynchronous())
    except (SteptrailError, KeyboardInterrupt) as error:
        return {"refused": type(error).__name__}
    reason = result.stop_reason.value if result.stop_reason is not None else None
    return {"status": result.status.value, "stop_reason": reason, "output": result.output_json or result.output}
