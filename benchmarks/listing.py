"""What the lists of a store cost that holds very many sessions, and what their index costs each step.

All but a few sessions are at rest: their commits are those of one real session, stored again under other names. The few
wait for an approval, or are due. A list is asked as a service asks it: the first page of all runs, what is due, what
people are asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from msgspec import structs

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.texts import QUESTION
from benchmarks.work import agent, run, session_name
from steptrail import Agent, AgentBuilder, Steptrail, tool
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, StreamHead
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing import ScriptedModel, call

_ASKED = 20
"""So often each list is asked in a pass."""
_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFigures:
    """One list over `sessions` sessions: milliseconds of the processor and by the clock, and how many rows it has."""

    what: str
    sessions: int
    rows: int
    cpu_ms: float
    wall_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFigures:
    """A run of `steps` steps; the floor is the same run whose commits bring no row for the index."""

    steps: int
    time: Compared


async def measure_lists(site: Site, sessions: int, few: int) -> Sequence[ListFigures]:
    """Measure each list of a store with so many sessions at rest, and `few` that wait, and as many that are due."""
    progress(f"{site.name}: lists of {sessions:,} sessions")
    place = site.fresh()
    try:
        async with Steptrail.open(place.url, durability="normal") as trail:
            await store_again(trail, sessions, agent(0))
            await _add_open_ones(trail, few)
            asked: dict[str, Callable[[], Awaitable[Sequence[Any]]]] = {
                "`runs()`, the newest 100": trail.runs,
                '`runs(status="waiting")`': lambda: trail.runs(status="waiting"),
                "`due()`": trail.due,
                "`inbox()`": trail.inbox,
            }
            return [await _asked(what, ask, sessions + 2 * few) for what, ask in asked.items()]
    finally:
        place.remove()


async def measure_index(site: Site, steps: int, passes: int) -> IndexFigures:
    """Measure what the row of the index adds to a step."""
    progress(f"{site.name}: the index of streams")
    place = site.fresh()
    try:
        return IndexFigures(steps=steps, time=compared(await _with_and_without(place, steps, passes), steps))
    finally:
        place.remove()


async def _asked(what: str, ask: Callable[[], Awaitable[Sequence[Any]]], sessions: int) -> ListFigures:
    rows = await ask()
    with stopwatch() as watch:
        for _ in range(_ASKED):
            await ask()
    cost = watch.cost
    each = 1000 / _ASKED
    return ListFigures(what=what, sessions=sessions, rows=len(rows), cpu_ms=cost.cpu * each, wall_ms=cost.wall * each)


async def store_again(trail: Steptrail, sessions: int, who: Agent) -> None:
    """Have an agent run one session, and store it under other names, until there are so many.

    Raises `RuntimeError` when the session neither completes nor waits.
    """
    commits: list[Commit] = []

    def note(commit: Commit) -> Commit:
        commits.append(commit)
        return commit

    ended = (await _through(trail, note).run(who, QUESTION, session=session_name(0))).status
    if ended not in {ExecutionStatus.COMPLETED, ExecutionStatus.WAITING}:
        msg = f"the session that is to be stored again ended as {ended}"
        raise RuntimeError(msg)

    async def store(name: str) -> None:
        head = EMPTY_STREAM
        for commit in commits:
            row = commit.summary
            own = structs.replace(commit, summary=row and structs.replace(row, session_id=name))
            head = await trail.store.append(f"agent:{name}", head, own)

    names = iter(range(1, sessions))
    while some := list(islice(names, _AT_ONCE)):
        await asyncio.gather(*(store(session_name(number)) for number in some))


def asking(times: int) -> Agent:
    """Return an agent that asks for an approval, in so many runs."""

    @tool(approval=True)
    def order(packets: int) -> str:
        """Order packets."""
        return f"{packets} packets"

    asks = [call("order", packets=3)] * times
    return AgentBuilder("asks").with_model(ScriptedModel(asks)).with_tools(order).build()


async def _add_open_ones(trail: Steptrail, few: int) -> None:
    who = asking(few)
    for number in range(few):
        await trail.run(who, QUESTION, session=f"asks-{number:06}")
        await trail.start(who, QUESTION, session=f"due-{number:06}")


async def _with_and_without(place: Place, steps: int, passes: int) -> list[Pair]:
    pairs: list[Pair] = []
    async with Steptrail.open(place.url) as trail:
        without = _through(trail, lambda commit: structs.replace(commit, summary=None))
        numbers = iter(range(2 * passes + 1))

        async def one(which: Steptrail) -> Cost:
            who, name = agent(steps), session_name(next(numbers))
            with stopwatch() as watch:
                await run(which, who, name)
            return watch.cost

        before = await one(without)
        for _ in range(passes):
            ours = await one(trail)
            after = await one(without)
            pairs.append(Pair(ours, between(before, after)))
            before = after
    return pairs


def _through(trail: Steptrail, change: Callable[[Commit], Commit]) -> Steptrail:
    """Return a trail on the same store, whose commits are changed before they are stored."""
    return Steptrail(Environment(store=cast("EventStore", _Changing(trail.store, change))))


class _Changing:
    def __init__(self, store: EventStore, change: Callable[[Commit], Commit]) -> None:
        self._store, self._change = store, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        """Change the commit and store it."""
        return await self._store.append(stream, expected, self._change(commit))
