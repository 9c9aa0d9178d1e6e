"""A process that runs one command on the session of a scenario and prints how that ended as one line of JSON."""

import argparse
import asyncio
import json
from pathlib import Path

from steptrail.domain.errors import SteptrailError
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.sync import SyncSteptrail
from steptrail.infrastructure.trail import Steptrail
from steptrail.runtime.agent import Agent
from steptrail.runtime.control import Environment
from steptrail.runtime.result import RunResult
from steptrail.testing.crash import Fault, kill_at
from tests.processes.agents.agents import AGENTS
from tests.processes.agents.site import SESSION, Site

__all__ = ["main"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "run-sync", "resume", "take-over", "send"])
    parser.add_argument("agent", choices=sorted(AGENTS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--text", default="Run the errands.")
    parser.add_argument("--fault", type=Fault.parse)
    return parser.parse_args()


async def _perform(trail: Steptrail, agent: Agent, command: str, text: str) -> RunResult:
    session = trail.session(SESSION)
    match command:
        case "run":
            return await trail.run(agent, text, session=SESSION)
        case "send":
            return await session.send(agent, text)
        case _:
            return await session.resume(agent, take_over=command == "take-over")


def main() -> None:
    """Run the command that the arguments name."""
    given = _arguments()
    site = Site(given.folder)
    agent = AGENTS[given.agent](site, given.options)

    def opened() -> Steptrail:
        # A SIGKILL loses nothing that has reached the operating system.
        return Steptrail(Environment(store=open_store(site.url, durability="normal"), reach=kill_at(given.fault)))

    async def asynchronous() -> RunResult:
        async with opened() as trail:
            try:
                return await _perform(trail, agent, given.command, given.text)
            finally:
                await agent.model.close()

    try:
        if given.command == "run-sync":
            with SyncSteptrail(opened) as trail:
                result = trail.run(agent, given.text, session=SESSION)
        else:
            result = asyncio.run(asynchronous())
    except SteptrailError as error:
        print(json.dumps({"refused": type(error).__name__}))
    except KeyboardInterrupt:
        print(json.dumps({"refused": "KeyboardInterrupt"}))
    else:
        reason = result.stop_reason.value if result.stop_reason is not None else None
        print(json.dumps({"status": result.status.value, "stop_reason": reason, "output": result.output}))


if __name__ == "__main__":
    main()
