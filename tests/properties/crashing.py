"""Runs an agent in processes that die at one commit, and counts outside of the log what its tools did.

Its input has a file, and each process answers the external calls that it finds open.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from steptrail import Agent, Message, RunResult, Steptrail
from steptrail.audit import WhatIfAnswer
from steptrail.domain.agent.events import AgentEvent
from steptrail.infrastructure.store.opening import open_store
from steptrail.messages import File
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore

COMMIT_POINTS = ("before-append", "after-append")
KEY = "the-one-run"
INPUT = Message.user("go", File.from_bytes(b"what it is about"))


class Crash(BaseException):
    """The process dies here."""


@dataclass
class Ledger:
    """What really happened to the outside world."""

    ran: Counter[str] = field(default_factory=Counter[str])

    def note(self, what: str) -> None:
        self.ran[what] += 1


@dataclass(frozen=True)
class Ended:
    """How a run ended, what it logged, and how often a commit point was reached."""

    result: RunResult
    events: Sequence[AgentEvent]
    reached: int
    crashed: bool


async def run_with_a_crash(make: Callable[[], Agent], point: str, number: int) -> Ended:
    """Run; die when `point` is reached for the `number`-th time, 0 for never; then run the same command again."""

    store = open_store("sqlite:///:memory:")
    reached = 0

    def reach(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == number:
            raise Crash

    result: RunResult | None = None
    try:
        with suppress(Crash):
            result = await process(store, make(), reach)
        crashed = result is None
        if result is None:
            result = await process(store, make(), lambda _: None)
        trail = Steptrail(Environment(store=store))
        records = await trail.session("s").events()
        assert not await store.blob_faults()
        # Limits that nothing comes near change nothing, wherever the log was cut and went on.
        far = {"max_unproductive_segments": 50, "cumulative_timeout": 1e6}
        rows = (await trail.what_if("s", limits=far, trust_tools=True)).rows
        assert [(row.answer, row.why) for row in rows] == [(WhatIfAnswer.SAME, "")]
    finally:
        await store.close()
    return Ended(result, [record.event for record in records], reached, crashed)


async def process(store: EventStore, agent: Agent, reach: Callable[[str], None]) -> RunResult:
    trail = Steptrail(Environment(store=store, reach=reach))
    result, session = await trail.run(agent, INPUT, session="s", key=KEY), trail.session("s")
    while asked := result.state.open_calls:
        for call in asked:
            await session.answer(call.id, "known", by="ana", key=call.id)
        result = await session.resume(agent)
    return result
