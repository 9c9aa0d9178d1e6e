"""People who answer the same questions at the same moment, each in a process of its own: one of them is heard.

Each session asks for an approval and for the result of an external call in one reply, and half of the people begin with
the second.
"""

import asyncio
import mmap
import struct
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steptrail.domain.agent.standing import standing
from steptrail.domain.errors import CommandRejected
from steptrail.infrastructure.tools import tool
from steptrail.infrastructure.tools.external import external_tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger
from steptrail.testing.scripted_model import ScriptedModel, calls
from tests.harness.crash_audit import read_log
from tests.harness.log_audit import LogAudit, audit_log
from tests.harness.store_urls import opened
from tests.harness.worker_pool import WorkerPool

_PLACE = struct.Struct("<q")
_HANGS_SECONDS = 600.0
_SESSIONS_AT_ONCE = 16
_OF_A_SESSION = 2


@dataclass(frozen=True, slots=True)
class Answered:
    """How many questions were asked, of how many exactly one answer was accepted, and what the logs show."""

    questions: int
    accepted_once: int
    found: LogAudit

    @property
    def broken(self) -> int:
        """How often a promise was broken."""
        return self.questions - self.accepted_once + self.found.broken


def answer_at_once(pool: WorkerPool, url: str, folder: Path, *, questions: int, people: int = 4) -> Answered:
    """Have each of so many questions answered by `people` processes at the same moment; half of them say no."""
    sessions = [f"asks-{number}" for number in range(questions // _OF_A_SESSION)]
    pool.run(ask, url, sessions).answer()
    ledgers = {session: Ledger(folder / f"{session}.jsonl") for session in sessions}
    meeting = meeting_of(folder, people)
    workers = [pool.start(answer_all, url, sessions, folder, meeting, number, people) for number in range(people)]
    for worker in workers:
        worker.end(_HANGS_SECONDS).answer()
    found, once = LogAudit(), 0
    for session, ledger in ledgers.items():
        entries = ledger.entries()
        found += audit_log(asyncio.run(read_log(url, session)).records, entries)
        times = Counter(entry.effect for entry in entries)
        # The run goes on after the last answer, and with nothing before it.
        is_over = asyncio.run(goes_on(url, session))
        once += sum(count == 1 for count in times.values()) if is_over else 0
    return Answered(questions, once, found)


async def goes_on(url: str, session: str) -> bool:
    """Tell whether the session has no question left, and is due."""
    async with Steptrail(Environment(store=opened(url))) as trail:
        state = await trail.session(session).state()
        return not (state.open_approvals or state.open_calls) and standing(state).is_due(state.as_of)


def ask(url: str, sessions: Sequence[str]) -> None:
    """Run each session until it waits for the answers."""

    @tool(approval=True)
    def pay() -> str:
        """Pay what needs a yes."""
        return "paid"

    async def main() -> None:
        know = external_tool("know", "Know the way.", {"type": "object", "properties": {}})
        reply = calls(("pay", {}), ("know", {}))
        agent = AgentBuilder("asks").with_model(ScriptedModel([reply, "Paid."])).with_tools(pay, know).build()
        store = opened(url)
        async with Steptrail(Environment(store=store)) as trail:
            for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
                batch = sessions[start : start + _SESSIONS_AT_ONCE]
                await asyncio.gather(*(trail.run(agent, "Pay.", session=session) for session in batch))

    asyncio.run(main())


def answer_all(url: str, sessions: Sequence[str], folder: Path, meeting: Path, number: int, people: int) -> None:
    """Answer the questions of each session when all others are about to, too. For a process of its own."""

    async def main() -> None:
        store = opened(url)
        async with Steptrail(Environment(store=store)) as trail:
            for turn, name in enumerate(sessions, 1):
                session = trail.session(name)
                state = await session.state()
                says_yes, by = (turn + number) % 2, f"person {number}"
                decide = session.approve if says_yes else session.deny
                said: dict[str, Any] = {"result": "left"} if says_yes else {"error": "lost"}
                (approval,), (call,) = state.open_approvals, state.open_calls
                answers = [(approval.id, partial(decide, approval.id, by=by))]
                answers.append((call.id, partial(session.answer, call.id, **said, by=by)))
                everybody_is_here(places, number, people, turn)
                for question, answer in reversed(answers) if number % 2 else answers:
                    try:
                        await answer()
                    except CommandRejected:
                        continue
                    Ledger(folder / f"{name}.jsonl").write("answered", question)

    with meeting.open("r+b") as file, mmap.mmap(file.fileno(), 0) as places:
        asyncio.run(main())


def meeting_of(folder: Path, people: int) -> Path:
    """Return a file in which so many processes can meet, which `everybody_is_here` is given as memory."""
    meeting = folder / "meeting"
    meeting.write_bytes(bytes(_PLACE.size * people))
    return meeting


def everybody_is_here(places: mmap.mmap, number: int, people: int, turn: int) -> None:
    """Wait until everybody has come to this turn."""
    _PLACE.pack_into(places, number * _PLACE.size, turn)
    while any(_PLACE.unpack_from(places, other * _PLACE.size)[0] < turn for other in range(people)):
        time.sleep(0)
