"""Several workers on many sessions, one of them killed every few seconds: does every session end, and as it should?

Sessions are started and left to the workers. Their model fails now and then, and a run does not wait for the next try;
some of them ask a person, and to some of them something is said meanwhile. So they are due for every reason that there
is, a crash among them.
"""

import asyncio
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.waking import Waking
from steptrail.testing.crash import Ledger, finished_effects, repeated
from steptrail.testing.scripted_model import ScriptedModel, call, say
from tests.harness.crash_audit import read_log
from tests.harness.log_audit import LogAudit, audit_log
from tests.harness.store_urls import opened, with_short_leases
from tests.harness.worker_pool import Worker, WorkerPool

__all__ = ["Fleet", "fleet", "have_completed"]

_AGENT = "fleet"
_CALLS = 3
_ONE_IN = 5
"""One session in so many asks a person, and one in so many is said something."""
_FAILS = 0.1
"""The part of the model's answers that fail."""
_MOST_REPLIES = 100_000
_LOOK_SECONDS = 0.1
_LEASE_SECONDS = 3.0
_HANGS_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many sessions there were, in how many segments they ran, how many workers were killed; and what was broken.

    `unfinished`: sessions that did not complete. `not_whole`: sessions with a gap, with a digest that does not verify,
    or that the index shows otherwise than their events. `calls_wrong`: sessions in which calls are missing, or ended in
    the log and not in the ledger, or ran again after the log knew their end. `found` is what each log and the ledger
    show.
    """

    sessions: int
    segments: int
    kills: int
    unfinished: int
    not_whole: int
    calls_wrong: int
    found: LogAudit

    @property
    def broken(self) -> int:
        """How often any promise was broken."""
        return self.unfinished + self.not_whole + self.calls_wrong + self.found.broken


@dataclass(frozen=True, slots=True)
class _Yard:
    """The store, the ledger of all, how long a call takes, the file that ends workers, and whether these are woken."""

    url: str
    ledger: Ledger
    seconds: float
    end: Path
    is_woken: bool

    def trail(self) -> Steptrail:
        """Return a trail of the store, which wakes, and is woken, by an engine if that is so."""
        store = opened(self.url)
        waking = Waking(store)
        if self.is_woken:
            waking.engine = ProcrastinateEngine(self.url, heartbeat=0.5, stalled_after=_LEASE_SECONDS)
        return Steptrail(Environment(store=store, waking=waking))

    def agent(self) -> Agent:
        """Return the agent; every process makes its own."""
        draw = random.Random()  # noqa: S311 - chooses requests

        def reply(request: ModelRequest) -> ModelReply:
            last = next(i for i, message in enumerate(reversed(request.messages)) if message.is_user())
            served = sum(message.is_tool() for message in request.messages[len(request.messages) - last :])
            asks = any(message.is_user() and message.text == "Pay." for message in request.messages)
            if draw.random() < _FAILS:
                raise ConnectionError("no line")
            if served == 0:
                return call("pay" if asks else "serve")
            return call("serve") if served < _CALLS else say("Done.")

        async def act(context: ToolContext) -> str:
            self.ledger.write("began", context.effect_id)
            await asyncio.sleep(self.seconds)
            self.ledger.write("done", context.effect_id)
            return "done"

        @tool(effect=ToolEffect.IDEMPOTENT)
        async def serve(context: ToolContext) -> str:
            """Serve somebody."""
            return await act(context)

        @tool(effect=ToolEffect.IDEMPOTENT, approval=True)
        async def pay(context: ToolContext) -> str:
            """Pay somebody."""
            return await act(context)

        model = ScriptedModel([reply] * _MOST_REPLIES)
        policy = ErrorPolicy.retry_all(20).with_backoff(Backoff.linear(0.3))
        limits = Limits(max_steps=None, max_tokens=None, longest_wait=0.1, max_unproductive_segments=1000)
        builder = AgentBuilder(_AGENT).with_model(model).with_tools(serve, pay).with_error_policy(policy)
        return builder.with_limits(limits).build()


def fleet(
    pool: WorkerPool,
    url: str,
    folder: Path,
    *,
    sessions: int,
    workers: int,
    kill_every: float,
    seconds: float,
    seed: int,
    concurrency: int = 8,
    is_woken: bool = False,
) -> Fleet:
    """Start `sessions` sessions, let `workers` processes work, and kill one every `kill_every` seconds until all ended.

    Each session makes three calls of `seconds` seconds. A worker that is killed is replaced. On PostgreSQL what a dead
    worker held is free when its lease has run out. There an engine may wake the workers, with `is_woken`.
    """
    ledger, end = Ledger(folder / f"fleet-{seed}.jsonl"), folder / f"fleet-{seed}.end"
    yard = _Yard(with_short_leases(url, _LEASE_SECONDS), ledger, seconds, end, is_woken)
    names = [f"fleet-{seed}-{number}" for number in range(sessions)]
    draw = random.Random(seed)  # noqa: S311 - chooses victims
    kills = asyncio.run(_driven(pool, yard, names, workers, concurrency, kill_every, draw))
    return asyncio.run(_judged(yard, names, kills))


def _work(yard: _Yard, concurrency: int) -> None:
    async def main() -> None:
        async with yard.trail() as trail, trail.work(yard.agent(), concurrency=concurrency):
            while not yard.end.exists():
                await asyncio.sleep(_LOOK_SECONDS)

    asyncio.run(main())


async def _driven(
    pool: WorkerPool,
    yard: _Yard,
    names: Sequence[str],
    workers: int,
    concurrency: int,
    kill_every: float,
    draw: random.Random,
) -> int:
    kills, loop = 0, asyncio.get_running_loop()
    async with yard.trail() as trail:
        agent = yard.agent()
        working = [pool.start(_work, yard, concurrency) for _ in range(workers)]
        for number, name in enumerate(names):
            await trail.start(agent, "Pay." if number % _ONE_IN == 0 else "Serve.", session=name, key=name)
        to_tell = [name for number, name in enumerate(names) if number % _ONE_IN == 1]
        until, blow_at = loop.time() + _HANGS_SECONDS, loop.time() + kill_every
        while to_tell or not await have_completed(trail, _AGENT, names):
            if loop.time() > until:
                break
            if to_tell:
                name = to_tell.pop()
                await trail.session(name).post(agent, said := f"{name}: and more", key=said)
                yard.ledger.write("said", said)
            for question in await trail.inbox(limit=20):
                with suppress(CommandRejected):
                    await trail.session(id_of(question.stream)).approve(question.id, by="ana")
                    yard.ledger.write("answered", question.id)
            if loop.time() >= blow_at:
                kills += await asyncio.to_thread(_kill, working, pool, yard, concurrency, draw)
                blow_at = loop.time() + kill_every
            await asyncio.sleep(_LOOK_SECONDS)
    yard.end.touch()
    for worker in working:
        worker.end(_HANGS_SECONDS).answer()
    return kills


def _kill(working: "list[Worker[None]]", pool: WorkerPool, yard: _Yard, concurrency: int, draw: random.Random) -> bool:
    number = draw.randrange(len(working))
    working[number].kill()
    ended = working[number].end()
    working[number] = pool.start(_work, yard, concurrency)
    return ended.code == -signal.SIGKILL


async def have_completed(trail: Steptrail, agent: str, names: Sequence[str]) -> bool:
    """Tell whether all these sessions of an agent have completed."""
    # Others may have used the store before, so it is not enough to count.
    return {row.session_id for row in await trail.runs(status="completed", agent=agent, limit=len(names))} >= {*names}


async def _judged(yard: _Yard, names: Sequence[str], kills: int) -> Fleet:
    entries = yard.ledger.entries()
    found, segments, unfinished, not_whole, calls_wrong = LogAudit(), 0, 0, 0, 0
    async with Steptrail(Environment(store=opened(yard.url))) as trail:
        for name in names:
            state = await trail.session(name).state()
            log = await read_log(yard.url, name)
            own = [entry for entry in entries if entry.effect.startswith(f"{name}:")]
            segments += state.fold.segment
            unfinished += state.status is not ExecutionStatus.COMPLETED
            not_whole += not log.is_whole
            done = {entry.effect for entry in own if entry.what == "done"}
            ended = finished_effects(log.records)
            calls_wrong += bool(ended.keys() - done) or len(ended) < _CALLS or bool(repeated(own, log.records))
            found += audit_log(log.records, own)
    return Fleet(len(names), segments, kills, unfinished, not_whole, calls_wrong, found)
