"""Many processes on one session: who runs it, who is refused, and whether anything that was said is lost.

Each contender has inputs of its own and tries to have them answered; another process sends messages and stops in
between. Whatever touches the outside world writes to a ledger when it begins and when it ends, and so do the attempts.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionFinished,
    ExecutionResumed,
    ExecutionStarted,
    MessagesAppended,
)
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, SessionBusy, SessionNotFound
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.messages import Message
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger, LedgerEntry
from steptrail.testing.scripted_model import ScriptedModel, call, say
from tests.harness.crash_audit import Log
from tests.harness.store_urls import opened

_MOST_CALLS = 10_000
_SECONDS_IN_A_TOOL = 0.02
"""Long enough for others to come in between, also where a machine starts processes more slowly than it runs them."""


@dataclass(frozen=True, slots=True)
class Arena:
    """One session on one store, and the ledger of what was done on it and tried."""

    url: str
    session: str
    ledger: Ledger

    def agent(self) -> Agent:
        """Return an agent that answers each message with one tool call and a text."""

        @tool
        def act() -> str:
            """Take a moment in the outside world."""
            with self._inside():
                time.sleep(_SECONDS_IN_A_TOOL)
            return "done"

        def reply(request: ModelRequest) -> ModelReply:
            with self._inside():
                return say("Answered.") if request.messages[-1].is_tool() else call("act")

        builder = AgentBuilder("contender").with_model(ScriptedModel([reply] * _MOST_CALLS)).with_tools(act)
        return builder.with_limits(Limits(max_steps=None, max_tokens=None)).build()

    @contextmanager
    def _inside(self) -> Generator[None]:
        self.ledger.write("enter")
        yield
        self.ledger.write("leave")


def contend(arena: Arena, name: str, inputs: int) -> None:
    """Have `inputs` inputs answered, however often that is refused. For a process of its own."""
    agent = arena.agent()

    async def main() -> None:
        store = opened(arena.url)
        async with Steptrail(Environment(store=store, worker=name)) as trail:
            for number in range(inputs):
                text = f"{name}-{number}"
                answered = partial(trail.run, agent, text, session=arena.session, key=text)
                while not await _tried(arena, answered):
                    # Whoever finds the session left alone goes on with what others began.
                    await _tried(arena, partial(trail.session(arena.session).resume, agent))

    asyncio.run(main())


def disturb(arena: Arena, name: str, messages: int) -> None:
    """Send `messages` messages, and a stop after every third. For a process of its own."""
    agent = arena.agent()

    async def main() -> None:
        store = opened(arena.url)
        async with Steptrail(Environment(store=store, worker=name)) as trail:
            session = trail.session(arena.session)
            for number in range(messages):
                text = f"{name}-{number}"
                while not await _tried(arena, partial(session.send, agent, text, key=text)):
                    pass
                if number % 3 == 2:
                    await _tried(arena, partial(session.stop, by=name))

    asyncio.run(main())


async def _tried(arena: Arena, attempt: Callable[[], Awaitable[object]]) -> bool:
    arena.ledger.write("tries")
    try:
        await attempt()
    except (SessionBusy, CommandRejected, SessionNotFound) as error:
        arena.ledger.write("refused", type(error).__name__)
        await asyncio.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - spreads those who wait
        return False
    arena.ledger.write("carried out")
    return True


@dataclass(frozen=True, slots=True)
class Contest:
    """What the ledger and the log say of a contest. Whatever is counted as wrong is nothing unless a promise is broken.

    `overlaps`: effects that began while another process was inside one. `late_refusals`: attempts that were refused
    after they had touched the outside world. `lost` and `doubled`: inputs that the log does not hold, or holds twice.
    `out_of_turn`: segments whose start does not follow the one before it. `unfinished`: executions that nobody ended.
    `refusals` counts by the kind of refusal.
    """

    overlaps: int
    late_refusals: int
    lost: list[str]
    doubled: list[str]
    out_of_turn: int
    unfinished: int
    log_is_whole: bool
    refusals: Counter[str]
    segments: int

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    @property
    def broken(self) -> int:
        """How often a promise was broken."""
        counted = self.overlaps + self.late_refusals + self.out_of_turn + self.unfinished
        return counted + len(self.lost) + len(self.doubled) + (not self.log_is_whole)


def judge(entries: Sequence[LedgerEntry], log: Log, said: Sequence[str]) -> Contest:
    """Hold the ledger and the log of a contest against each other; `said` is everything anybody wanted to say."""
    heard = Counter(_heard(log))
    segments = [r.event.segment for r in log.records if isinstance(r.event, ExecutionStarted | ExecutionResumed)]
    return Contest(
        overlaps=_overlaps(entries),
        late_refusals=_late_refusals(entries),
        lost=[text for text in said if not heard[text]],
        doubled=[text for text in said if heard[text] > 1],
        out_of_turn=sum(later != earlier + 1 for earlier, later in pairwise([0, *segments])),
        unfinished=_count(log, ExecutionStarted) - _count(log, ExecutionFinished),
        log_is_whole=log.is_whole,
        refusals=Counter(entry.effect for entry in entries if entry.what == "refused"),
        segments=len(segments),
    )


def _count(log: Log, kind: type[AgentEvent]) -> int:
    return sum(isinstance(record.event, kind) for record in log.records)


def _heard(log: Log) -> Iterator[str]:
    for record in log.records:
        match record.event:
            case ExecutionStarted(input=Message() as message):
                yield message.text
            case MessagesAppended(messages=messages):
                yield from (message.text for message in messages)
            case _:
                continue


def _overlaps(entries: Sequence[LedgerEntry]) -> int:
    inside: Counter[int] = Counter()
    count = 0
    for what, _, pid in entries:
        if what == "enter":
            count += any(depth for other, depth in inside.items() if other != pid)
            inside[pid] += 1
        elif what == "leave":
            inside[pid] -= 1
    return count


def _late_refusals(entries: Sequence[LedgerEntry]) -> int:
    touched: set[int] = set()
    count = 0
    for what, _, pid in entries:
        if what == "tries":
            touched.discard(pid)
        elif what == "enter":
            touched.add(pid)
        elif what == "refused":
            count += pid in touched
    return count
