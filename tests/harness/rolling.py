"""All workers are replaced, one after another, by workers with a new version of their agent. What becomes of the runs?

Half of the sessions are begun before the first worker ends, so they are in the middle of their calls. A worker that
ends drains: it pauses what it runs, and the others go on with that. The new version has another prompt and a further
tool. Each session has to end, and each that went on under the new version has to say what has changed.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steptrail.domain.agent.events import ExecutionResumed
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger, finished_effects, repeated
from steptrail.testing.scripted_model import ScriptedModel, call, say
from tests.harness.crash_audit import read_log
from tests.harness.fleet import have_completed
from tests.harness.store_urls import opened
from tests.harness.worker_pool import Worker, WorkerPool

_AGENT = "rolled"
_CALLS = 3
_MOST_REPLIES = 100_000
_LOOK_SECONDS = 0.05
_HANGS_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Rolled:
    """What became of the sessions while all workers were replaced.

    `went_on` of them went on under the new version. `unfinished`: did not complete, whatever they wait for.
    `unrecorded`: went on under the new version, and no event says what has changed. `not_whole`: their log has a gap or
    does not verify. `repeated`: did something again whose end the log knew.
    """

    sessions: int
    went_on: int
    unfinished: int
    unrecorded: int
    not_whole: int
    repeated: int

    @property
    def broken(self) -> int:
        """How often any promise was broken."""
        return self.unfinished + self.unrecorded + self.not_whole + self.repeated


@dataclass(frozen=True, slots=True)
class _Site:
    url: str
    ledger: Ledger
    seconds: float
    folder: Path

    def end_of(self, worker: str) -> Path:
        """Return the file that has a worker end."""
        return self.folder / f"{worker}.end"

    def agent(self, version: int, *, holds: bool = False) -> Agent:
        """Return one version of the agent; every process makes its own. One that `holds` never ends its first call."""

        @tool(effect=ToolEffect.IDEMPOTENT)
        async def serve(context: ToolContext) -> str:
            """Serve somebody."""
            nonlocal holds
            lasts, holds = _HANGS_SECONDS if holds else self.seconds, False
            self.ledger.write("began", context.effect_id)
            await asyncio.sleep(lasts)
            self.ledger.write("done", context.effect_id)
            return "served"

        @tool(effect=ToolEffect.READ)
        def look() -> str:
            """Look around."""
            return "nobody"

        def reply(request: ModelRequest) -> ModelReply:
            served = sum(message.is_tool() for message in request.messages)
            return call("serve") if served < _CALLS else say(f"Done by version {version}.")

        tools = (serve,) if version == 1 else (serve, look)
        builder = AgentBuilder(_AGENT).with_model(ScriptedModel([reply] * _MOST_REPLIES)).with_tools(*tools)
        return builder.with_system_prompt(f"You are version {version}.").build()


def roll(pool: WorkerPool, url: str, folder: Path, *, sessions: int, workers: int, seconds: float) -> Rolled:
    """Start `sessions` sessions, let `workers` processes work, and replace each of them while sessions go on.

    Each session makes three calls of `seconds` seconds.
    """
    site = _Site(url, Ledger(folder / "rolling.jsonl"), seconds, folder)
    names = [f"rolled-{number}" for number in range(sessions)]
    asyncio.run(_driven(pool, site, names, workers))
    return asyncio.run(_judged(site, names))


def _work(site: _Site, version: int, worker: str) -> None:
    async def main() -> None:
        trail = Steptrail(Environment(store=opened(site.url)))
        # Otherwise all sessions might be at their end when the worker is replaced.
        async with trail, trail.work(site.agent(version, holds=version == 1), grace=site.seconds / 2):
            while not site.end_of(worker).exists():
                await asyncio.sleep(_LOOK_SECONDS)

    asyncio.run(main())


async def _driven(pool: WorkerPool, site: _Site, names: Sequence[str], workers: int) -> None:
    async with Steptrail(Environment(store=opened(site.url))) as trail:
        agent = site.agent(1)

        async def start(some: Sequence[str]) -> None:
            for name in some:
                await trail.start(agent, "Serve.", session=name, key=name)

        old = {f"old-{n}": pool.start(_work, site, 1, f"old-{n}") for n in range(workers)}
        await start(names[: len(names) // 2])
        new: dict[str, Worker[None]] = {}
        rest = names[len(names) // 2 :]
        for n, (name, worker) in enumerate(old.items()):
            # None is replaced before sessions have begun.
            while not await trail.runs(status="in_progress", agent=_AGENT, limit=1):
                await asyncio.sleep(_LOOK_SECONDS)
            site.end_of(name).touch()
            new[f"new-{n}"] = pool.start(_work, site, 2, f"new-{n}")
            await start(rest[n::workers])
            (await asyncio.to_thread(worker.end, _HANGS_SECONDS)).answer()
        until = asyncio.get_running_loop().time() + _HANGS_SECONDS
        while not await have_completed(trail, _AGENT, names) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_SECONDS)
    for name, worker in new.items():
        site.end_of(name).touch()
        worker.end(_HANGS_SECONDS).answer()


async def _judged(site: _Site, names: Sequence[str]) -> Rolled:
    entries = site.ledger.entries()
    went_on = unfinished = unrecorded = not_whole = done_again = 0
    async with Steptrail(Environment(store=opened(site.url))) as trail:
        for name in names:
            state, log = await trail.session(name).state(), await read_log(site.url, name)
            own = [entry for entry in entries if entry.effect.startswith(f"{name}:")]
            resumed = [record.event for record in log.records if isinstance(record.event, ExecutionResumed)]
            is_new = state.output == "Done by version 2."
            went_on += is_new
            unfinished += state.status is not ExecutionStatus.COMPLETED
            unrecorded += is_new and not any(event.agent and event.changes for event in resumed)
            not_whole += not log.is_whole
            done = {entry.effect for entry in own if entry.what == "done"}
            ended = finished_effects(log.records)
            done_again += bool(ended.keys() - done) or len(ended) != _CALLS or bool(repeated(own, log.records))
    return Rolled(len(names), went_on, unfinished, unrecorded, not_whole, done_again)
