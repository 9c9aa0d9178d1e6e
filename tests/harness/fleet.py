"""Several workers on many sessions, one of them killed every few seconds: does every session end, and as it should?

Sessions are started and left to the workers. Their model fails now and then, and a run does not wait for the next try;
some of them ask a person, and to some of them something is said meanwhile. So they are due for every reason that there
is, a crash among them. The server of the store may die under all of it.
"""

import asyncio
import math
import random
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from steptrail.domain.errors import CommandRejected, StoreError
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger, finished_effects, repeated
from tests.harness.crash_audit import read_log
from tests.harness.fleet_delays import Delays, delays_in
from tests.harness.fleet_yard import AGENT, LEASE_SECONDS, SIGNED, Load, Yard
from tests.harness.log_audit import LogAudit, audit_log
from tests.harness.store_urls import opened, with_short_leases
from tests.harness.worker_pool import Worker, WorkerPool

_ONE_IN = 5
"""One session in so many asks people, for a yes and for a result, and one in so many is said something."""
_LOOK_SECONDS = 0.1
_HANGS_SECONDS = 1500.0


class Harm(NamedTuple):
    """A worker is killed every so many seconds, and the server is restarted at these seconds by `restart`.

    After `most_kills` no worker is killed any more: on a busy machine all takes longer, and each kill makes it busier.
    """

    kill_every: float
    restart: Callable[[int], None] = lambda number: None
    restart_at: Sequence[float] = ()
    most_kills: float = math.inf


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many sessions there were, in how many segments they ran, how many workers were killed; and what was broken.

    `unfinished`: sessions that did not complete. `not_whole`: sessions with a gap, with a digest that does not verify,
    or that the index shows otherwise than their events. `calls_wrong`: sessions in which calls are missing, or ended in
    the log and not in the ledger, or ran again after the log knew their end. `found` is what each log and the ledger
    show. `delays` are the times in which workers went on with what was due.
    """

    sessions: int
    segments: int
    kills: int
    unfinished: int
    not_whole: int
    calls_wrong: int
    found: LogAudit
    delays: Delays

    @property
    def broken(self) -> int:
        """How often any promise was broken."""
        return self.unfinished + self.not_whole + self.calls_wrong + self.found.broken


def fleet(
    pool: WorkerPool,
    url: str,
    folder: Path,
    load: Load,
    harm: Harm,
    *,
    workers: int,
    seed: int,
    concurrency: int = 8,
    is_woken: bool = False,
) -> Fleet:
    """Start the sessions, let `workers` processes work, and kill one now and then, until all sessions have ended.

    A worker that is killed is replaced. On PostgreSQL what a dead worker held is free when its lease has run out. There
    an engine may wake the workers, with `is_woken`.
    """
    ledger, end = Ledger(folder / f"fleet-{seed}.jsonl"), folder / f"fleet-{seed}.end"
    yard = Yard(with_short_leases(url, LEASE_SECONDS), ledger, load, end, is_woken)
    names = [f"fleet-{seed}-{number}" for number in range(load.sessions)]
    working = _Working(pool, yard, workers, concurrency, random.Random(seed))  # noqa: S311 - chooses victims
    asyncio.run(_driven(working, names, harm))
    working.end()
    return asyncio.run(_judged(yard, names, working.kills))


def _work(yard: Yard, concurrency: int) -> None:
    async def main() -> None:
        async with yard.trail() as trail, trail.work(yard.agent(), concurrency=concurrency):
            while not yard.end.exists():
                await asyncio.sleep(_LOOK_SECONDS)

    asyncio.run(main())


class _Working:
    """The worker processes."""

    def __init__(self, pool: WorkerPool, yard: Yard, workers: int, concurrency: int, draw: random.Random) -> None:
        self._pool, self.yard, self._concurrency, self._draw, self.kills = pool, yard, concurrency, draw, 0
        self._workers: list[Worker[None]] = [self._started() for _ in range(workers)]

    def _started(self) -> "Worker[None]":
        return self._pool.start(_work, self.yard, self._concurrency)

    def kill_one(self) -> None:
        """Kill one of them, and let another one begin."""
        number = self._draw.randrange(len(self._workers))
        self._workers[number].kill()
        self.kills += self._workers[number].end().code == -signal.SIGKILL
        self._workers[number] = self._started()

    def end(self) -> None:
        """Tell all that it is over, and wait for them; what one of them failed with is raised."""
        self.yard.end.touch()
        for worker in self._workers:
            worker.end(_HANGS_SECONDS).answer()


async def _driven(working: _Working, names: Sequence[str], harm: Harm) -> None:
    yard, loop = working.yard, asyncio.get_running_loop()
    async with yard.trail() as trail:
        began, blows, restarts = loop.time(), 1, 0
        users = _Users(trail, yard, names)
        while loop.time() < began + _HANGS_SECONDS:
            if blows <= harm.most_kills and blows * harm.kill_every <= loop.time() - began:
                await asyncio.to_thread(working.kill_one)
                blows += 1
            if harm.restart_at[restarts : restarts + 1] and harm.restart_at[restarts] <= loop.time() - began:
                await asyncio.to_thread(harm.restart, restarts)
                restarts += 1
            # A server that is away is asked again.
            with suppress(StoreError):
                if await users.do_what_is_due(loop.time() - began) and await have_completed(trail, AGENT, names):
                    return
            await asyncio.sleep(_LOOK_SECONDS)


class _Users:
    """Those who start sessions, say something to them, and answer their questions."""

    def __init__(self, trail: Steptrail, yard: Yard, names: Sequence[str]) -> None:
        self._trail, self._yard, self._names, self._agent = trail, yard, names, yard.agent()
        self._begun, self._to_tell = 0, list[str]()

    async def do_what_is_due(self, now: float) -> bool:
        """Do what is due so many seconds after the beginning; tell whether everything is begun and said."""
        trail = self._trail
        while self._begun < len(self._names) and self._begun * self._yard.load.every <= now:
            number, name = self._begun, self._names[self._begun]
            await trail.start(self._agent, "Pay." if number % _ONE_IN == 0 else "Serve.", session=name, key=name)
            self._begun += 1
            if number % _ONE_IN == 1:
                self._to_tell.append(name)
        if self._to_tell:
            said = f"{self._to_tell[-1]}: and more"
            await trail.session(self._to_tell[-1]).post(self._agent, said, key=said)
            self._yard.ledger.write("said", said)
            self._to_tell.pop()
        for question in await trail.inbox(limit=20):
            with suppress(CommandRejected):
                session = trail.session(id_of(question.stream))
                if question.kind == "external":
                    await session.answer(question.id, SIGNED, by="ana")
                else:
                    await session.approve(question.id, by="ana")
                self._yard.ledger.write("answered", question.id)
        return self._begun == len(self._names) and not self._to_tell


async def have_completed(trail: Steptrail, agent: str, names: Sequence[str]) -> bool:
    """Tell whether all these sessions of an agent have completed."""
    # Others may have used the store before, so it is not enough to count.
    return {row.session_id for row in await trail.runs(status="completed", agent=agent, limit=len(names))} >= {*names}


async def _judged(yard: Yard, names: Sequence[str], kills: int) -> Fleet:
    entries = yard.ledger.entries()
    found, delays, segments, unfinished, not_whole, calls_wrong = LogAudit(), Delays(), 0, 0, 0, 0
    of_session: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        of_session.setdefault(entry.effect.split(":")[0], []).append(number)
    async with Steptrail(Environment(store=opened(yard.url))) as trail:
        for name in names:
            state = await trail.session(name).state()
            log = await read_log(yard.url, name)
            own = [entries[number] for number in of_session.get(name, ())]
            segments += state.fold.segment
            unfinished += state.status is not ExecutionStatus.COMPLETED
            not_whole += not log.is_whole
            done = {entry.effect for entry in own if entry.what == "done"}
            ended = finished_effects(log.records)
            calls_wrong += bool(ended.keys() - done) or len(ended) < yard.load.calls or bool(repeated(own, log.records))
            found += audit_log(log.records, own)
            delays += delays_in(log.records)
    return Fleet(len(names), segments, kills, unfinished, not_whole, calls_wrong, found, delays)
