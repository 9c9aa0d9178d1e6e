"""Many processes that want the same session: they run it, take it over, stop, pause, say things and answer questions.

Each of them pauses now and then between any two looks at the store, is stopped and woken, and is killed and started
again. What may be said of the outcome is said by the log and the ledger alone.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy, SessionNotFound, StoreLocked
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.tools import tool
from steptrail.infrastructure.tools.external import external_tool
from steptrail.infrastructure.tools.reply import ToolReply
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.files import File
from steptrail.runtime.kernel.ids import new_id
from steptrail.testing.crash import Ledger
from steptrail.testing.scripted_model import ScriptedModel, calls, say
from tests.harness.crash_audit import read_log
from tests.harness.log_audit import LogAudit, audit_log
from tests.harness.store_moments import Moment, pausing, with_moments
from tests.harness.worker_pool import Worker, WorkerPool

_STEPS = 6
_MOST_REPLIES = 10_000
_LONGEST_PAUSE = 0.02
_BETWEEN_BLOWS = 0.12
_PATIENCE = 120.0
_REFUSALS = (SessionBusy, CommandRejected, SessionNotFound, OwnershipLost, StoreLocked)


@dataclass(frozen=True, slots=True)
class Prize:
    """The session that all want, on one store, and the ledger of everybody."""

    url: str
    session: str
    ledger: Ledger

    def agent(self) -> Agent:
        """Return an agent that asks for an unsafe call, an external one and two that need a yes in each step."""
        ledger = self.ledger

        @tool(effect=ToolEffect.UNSAFE)
        async def act(context: ToolContext) -> ToolReply:
            """Do what must not be done twice."""
            ledger.write("began", context.effect_id)
            await asyncio.sleep(0.002)
            return ToolReply("done", File.from_bytes(context.effect_id.encode()))

        @tool(effect=ToolEffect.UNSAFE, approval=True)
        async def pay(context: ToolContext) -> str:
            """Do what must not be done twice, and not without a yes."""
            ledger.write("began", context.effect_id)
            return "paid"

        def reply(request: ModelRequest) -> ModelReply:
            asked = sum(bool(message.tool_calls) for message in request.messages)
            return say("All done.") if asked >= _STEPS else calls(("pay", {}), ("act", {}), ("know", {}), ("pay", {}))

        know = external_tool("know", "Know the way.", {"type": "object", "properties": {}})
        builder = AgentBuilder("prize").with_model(ScriptedModel([reply] * _MOST_REPLIES)).with_tools(act, pay, know)
        endless = Limits(max_steps=None, max_tokens=None, timeout=None, max_unproductive_segments=100_000)
        return builder.with_limits(endless).build()


@dataclass(frozen=True, slots=True)
class Struggle:
    """What became of one session: what was broken, how often somebody was killed, and how it ended."""

    session: str
    found: LogAudit
    log_is_whole: bool
    kills: int
    segments: int
    status: str

    @property
    def broken(self) -> int:
        """How often a promise was broken."""
        return self.found.broken + (not self.log_is_whole)


def struggle(pool: WorkerPool, url: str, folder: Path, *, seed: int, blows: int = 12) -> Struggle:
    """Let six processes loose on a new session, hit them `blows` times, bring it to its end, and audit its log."""
    draw = random.Random(seed)  # noqa: S311 - chooses victims and moments
    session = new_id("prize")
    prize = Prize(url, session, Ledger(folder / f"{session}.jsonl"))
    pool.run(own, prize, seed, 1).answer()
    roles: list[Callable[[Prize, int], None]] = [own, own, own, answer, answer, command]
    workers: list[Worker[None]] = [pool.start(role, prize, seed * 100 + n) for n, role in enumerate(roles)]
    kills = 0
    for blow in range(blows):
        time.sleep(draw.uniform(0.0, _BETWEEN_BLOWS))
        victim = draw.randrange(len(workers))
        if draw.random() < 0.5:
            workers[victim].signal(signal.SIGSTOP)
            time.sleep(draw.uniform(0.0, 2 * _BETWEEN_BLOWS))
            workers[victim].signal(signal.SIGCONT)
            continue
        workers[victim].kill()
        if (ended := workers[victim].end(_PATIENCE)).code != -signal.SIGKILL:
            ended.answer()
        kills += 1
        workers[victim] = pool.start(roles[victim], prize, seed * 100 + 10 + blow)
    prize.ledger.write("over")
    for worker in workers:
        worker.end(_PATIENCE).answer()
    status = pool.run(finish, prize, seed).answer()
    log = asyncio.run(read_log(url, session))
    segments = max((record.head.segment for record in log.records if record.head is not None), default=0)
    found = audit_log(log.records, prize.ledger.entries())
    return Struggle(session, found, log.is_whole, kills, segments, status)


def own(prize: Prize, seed: int, times: int | None = None) -> None:
    """Run the session, often by taking it over. For a process of its own, like all that follow."""

    async def attempt(trail: Steptrail, draw: random.Random) -> None:
        if times is not None:
            await trail.run(prize.agent(), "Begin.", session=prize.session, key=prize.session)
        await trail.session(prize.session).resume(prize.agent(), take_over=draw.random() < 0.5)

    _go_on(prize, seed, attempt, times)


def answer(prize: Prize, seed: int) -> None:
    """Answer what waits for approval, and what is asked for outside, as others do at the same moment."""

    async def attempt(trail: Steptrail, draw: random.Random) -> None:
        session = trail.session(prize.session)
        state, by = await session.state(), f"person {os.getpid()}"
        for approval in state.open_approvals:
            say_it = session.approve if draw.random() < 0.7 else session.deny
            if await _accepted(say_it(approval.id, by=by)):
                prize.ledger.write("answered", approval.id)
        for call in state.open_calls:
            said: dict[str, Any] = {"result": "left"} if draw.random() < 0.7 else {"error": "lost"}
            if await _accepted(session.answer(call.id, **said, by=by)):
                prize.ledger.write("answered", call.id)

    _go_on(prize, seed, attempt)


def command(prize: Prize, seed: int) -> None:
    """Say something, pause, and now and then stop."""

    async def attempt(trail: Steptrail, draw: random.Random) -> None:
        session, what = trail.session(prize.session), draw.random()
        if what < 0.5:
            text = f"Go on, says {new_id('m')}."
            if await _accepted(session.send(prize.agent(), text)):
                prize.ledger.write("said", text)
        elif what < 0.85:
            if await _accepted(session.pause(by="operator")):
                prize.ledger.write("asked", "pause")
        elif await _accepted(session.stop(by="operator")):
            prize.ledger.write("asked", "stop")

    _go_on(prize, seed, attempt)


def finish(prize: Prize, seed: int) -> str:
    """Bring the session to its end alone, and return its status."""

    async def main() -> str:
        async with _opened(prize, lambda what: None) as trail:
            session = trail.session(prize.session)
            while (state := await session.state()).is_open:
                for approval in state.open_approvals:
                    await session.approve(approval.id, by="the last one")
                for call in state.open_calls:
                    await session.answer(call.id, "left", by="the last one")
                await session.resume(prize.agent(), take_over=True)
            return state.status.value

    del seed
    return asyncio.run(main())


def _go_on(
    prize: Prize, seed: int, attempt: Callable[[Steptrail, random.Random], Awaitable[None]], times: int | None = None
) -> None:
    draw = random.Random(seed)  # noqa: S311 - chooses what is tried

    async def main() -> None:
        left = times
        async with _opened(prize, pausing(seed, longest=_LONGEST_PAUSE)) as trail:
            while left != 0 and not any(entry.what == "over" for entry in prize.ledger.entries()):
                await _accepted(attempt(trail, draw))
                await asyncio.sleep(draw.uniform(0.0, _LONGEST_PAUSE))
                left = None if left is None else left - 1

    asyncio.run(main())


async def _accepted(attempt: Awaitable[object]) -> bool:
    try:
        await attempt
    except _REFUSALS:
        return False
    return True


def _opened(prize: Prize, moment: Moment) -> Steptrail:
    # A SIGKILL loses nothing that has reached the operating system, and a machine that is busy is no finding.
    store = open_store(prize.url, durability="normal", busy_timeout=60.0)
    return Steptrail(Environment(store=with_moments(store, moment), reach=moment))
