"""Lives of trees of agents and workflows: the real runtime on a store in memory, with what may come in between.

A process dies at a drawn commit, before or after it; a person says something there, or time goes by. What rests is gone
on with when it is due, what people are asked is answered, and a clock that nothing else would move is put forward.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from steptrail import Steptrail
from steptrail.domain.errors import CommandRejected
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.agent.ids import SessionId
from steptrail.infrastructure.flow.means import flow_means
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.infrastructure.store.opening import open_store
from steptrail.projections.questions import Question
from steptrail.runtime.kernel.environment import Environment
from steptrail.workflow import BuiltWorkflow
from tests.properties.tree_drawing import AnAgent, AFlow, Outside, made
from tests.runner.kit import Crash, HandClock

__all__ = ["Process", "Trouble", "TreeLife", "troubles"]

_MOST_TURNS = 50
"""Far more than any of these lives needs: with so many it goes in circles."""


@dataclass(frozen=True)
class Trouble:
    """What comes in between at the commit of this number, counted over all processes, or at a moment outside.

    `stream` is the place of the stream that a command is for.
    """

    number: int
    what: str
    stream: int = 0
    outside: bool = False


def troubles(*kinds: str) -> st.SearchStrategy[list[Trouble]]:
    one = st.builds(
        Trouble, st.integers(1, 30), st.sampled_from(kinds), st.integers(0, 3), st.booleans() if "stop" in kinds else st.just(False)
    )
    return st.lists(one, max_size=5)


class Process:
    """A store as one process sees it, which may die at a commit; and its fault points."""

    def __init__(self, life: "TreeLife") -> None:
        self._life, self.is_dead, self._leases = life, False, list[Any]()

    def __getattr__(self, name: str) -> Any:
        self.reach(name)
        return getattr(self._life.store, name)

    def reach(self, name: str) -> None:
        if self.is_dead:
            raise Crash(name)

    async def acquire(self, *args: Any, **more: Any) -> Any:
        self.reach("acquire")
        lease = await self._life.store.acquire(*args, **more)
        self._leases.append(lease)
        return lease

    async def append(self, *args: Any) -> Any:
        self.reach("append")
        life = self._life
        life.commits += 1
        trouble = life.troubles.pop((life.commits, False), None)
        if trouble is not None:
            life.came.append(trouble)
            if trouble.what == "crash after":
                with suppress(Exception):
                    await life.store.append(*args)
            if trouble.what.startswith("crash"):
                self.is_dead = True
                raise Crash(trouble.what)
            await life.come(trouble)
        return await life.store.append(*args)

    async def end(self) -> None:
        self.is_dead = True
        for lease in self._leases:
            await lease.release()


@dataclass(repr=False)
class TreeLife:
    """One tree on its way. `choices` are what people choose, and which of the things that can be done comes first."""

    tree: AnAgent | AFlow
    troubles_given: Sequence[Trouble] = ()
    choices: Sequence[int] = (0,)
    key: str = "s"

    def __post_init__(self) -> None:
        self.store: Any = open_store("sqlite:///:memory:")
        self.clock = HandClock()
        self.world = Outside(self.clock)
        self.world.moment = self._moment
        self.troubles = {(each.number, each.outside): each for each in self.troubles_given}
        self.came = list[Trouble]()
        self.commits = self.moments = self.turns = 0
        self._choices = cycle(self.choices or (0,))
        self.watch = Steptrail(self.environment(self.store))
        self.code: Any = made(self.tree, self.world)
        self.root = f"{'flow' if isinstance(self.code, BuiltWorkflow) else 'agent'}:{self.key}"
        self.did = list[str]()

    def __repr__(self) -> str:
        return f"<TreeLife of {self.tree!r}: {self.came!r} {self.did!r}>"

    def environment(self, store: Any, reach: Reach = no_faults) -> Environment:
        return Environment(store=store, clock=self.clock, worker="w", draw=lambda: 0.5, reach=reach)

    def pick(self, of: Sequence[Any]) -> Any:
        return of[next(self._choices) % len(of)]

    async def _moment(self) -> None:
        self.moments += 1
        trouble = self.troubles.pop((self.moments, True), None)
        if trouble is not None:
            self.came.append(trouble)
            await self.come(trouble)

    async def come(self, trouble: Trouble) -> None:
        """Have a person say something to one of the streams, or time go by."""
        if trouble.what == "time":
            self.clock.advance(15.0)
            return
        rows = await self.watch.runs()
        if not rows:
            return
        row = rows[-1 - trouble.stream % len(rows)]
        handle = self.handle(row.stream)
        with suppress(CommandRejected):
            match trouble.what:
                case "stop":
                    await handle.stop(by="ana")
                case "pause":
                    await handle.pause(by="ana")
                case "unpause":
                    await handle.unpause(by="ana")
                case _:
                    pass

    def handle(self, stream: str) -> Any:
        kind, _, name = stream.partition(":")
        return self.watch.flow(name) if kind == "flow" else self.watch.session(name)

    async def resume(self, env: Environment, *, obeys_pause: bool) -> None:
        if isinstance(self.code, BuiltWorkflow):
            await FlowControl(env, self.key, flow_means()).resume(self.code, obeys_pause=obeys_pause)
        else:
            await SessionControl(env, SessionId(self.key)).resume(self.code, obeys_pause=obeys_pause)

    async def turn(self, work: Callable[[Environment], Awaitable[Any]]) -> Any:
        """Have a new process do something, which may die of it."""
        process = Process(self)
        try:
            return await work(self.environment(process, process.reach))
        except BaseException as error:
            if not process.is_dead:
                raise
            del error
            return None
        finally:
            await process.end()

    async def live(self) -> RunSummary:
        """Begin, and go on until the tree has ended; return the row of its root."""
        while not (rows := await self.watch.runs(limit=500)):
            self.turns += 1
            await self.turn(lambda env: Steptrail(env).run(self.code, "go", session=self.key))
        while True:
            self.turns += 1
            assert self.turns < _MOST_TURNS, f"it goes in circles: {self!r} {await self.watch.due()}"
            rows = await self.watch.runs(limit=500)
            by_stream = {row.stream: row for row in rows}
            root = by_stream[self.root]
            if not root.is_open:
                return root
            await self.at_rest(by_stream)
            await self.go_on(by_stream)

    async def at_rest(self, rows: dict[str, RunSummary]) -> None:
        """Check what is told of the tree while no process runs it."""
        for stream in rows:
            said = await self.watch.handle(stream).why()
            assert said.verdict, stream

    async def go_on(self, rows: dict[str, RunSummary]) -> None:
        if self.root in {row.stream for row in await self.watch.due()}:
            # A worker keeps the pauses of people, and a person who goes on lifts them.
            self.did.append("resume")
            worker = self.pick([True, False])
            await self.turn(lambda env: self.resume(env, obeys_pause=worker))
            return
        questions = await self.watch.inbox()
        paused = [stream for stream, row in rows.items() if row.standing.value == "paused"]
        times = [row.due_at for row in rows.values() if row.due_at is not None and row.due_at > self.clock.utc()]
        can = ["answer"] * bool(questions) + ["unpause"] * bool(paused) + ["time"] * bool(times)
        assert can, f"it rests, and nothing can bring it on: {self!r} {rows!r}"
        what = self.pick(can)
        self.did.append(what)
        if what == "answer":
            await self.answer(self.pick(questions))
        elif what == "unpause":
            await self.handle(self.pick(sorted(paused))).unpause(by="ana")
        else:
            self.clock.reach(min(times))

    async def answer(self, asked: Question) -> None:
        handle: Any = self.handle(asked.stream)
        match asked.kind:
            case "approval":
                yes = self.pick([True, True, False])
                await (handle.approve(asked.id, by="ana") if yes else handle.deny(asked.id, by="ana"))
            case "unknown_outcome":
                await handle.settle(asked.id, self.pick(["completed", "failed"]), by="ana")
            case _:
                await handle.answer(asked.id, approved=self.pick([True, True, False]), by="ana")
