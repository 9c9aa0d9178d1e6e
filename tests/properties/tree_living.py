"""Lives of trees of agents and workflows: the real runtime on a store in memory, with what may come in between.

A process dies at a drawn commit, before or after it; a person says something there, or time goes by. What rests is gone
on with when it is due, what people are asked is answered, and a clock that nothing else would move is put forward.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

from hypothesis import strategies as st

from steptrail import Steptrail
from steptrail.domain.agent.ids import SessionId
from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.flow.means import flow_means
from steptrail.infrastructure.store.opening import open_store
from steptrail.projections.questions import Question
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.left_behind import LeftBehind
from steptrail.workflow import BuiltWorkflow
from tests.properties.tree_drawing import AFlow, AnAgent, Outside, made
from tests.runner.kit import Crash, HandClock

__all__ = ["Process", "TreeLife", "Trouble", "troubles"]

_KEY, _MOST_TURNS = "s", 200
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


def troubles(*kinds: str, most: int = 5) -> st.SearchStrategy[list[Trouble]]:
    """Draw what comes in between; a process dies at commits only."""
    said = [kind for kind in kinds if not kind.startswith("crash")]
    at_commit = st.builds(Trouble, st.integers(1, 20), st.sampled_from(kinds), st.integers(0, 3))
    outside = (
        st.builds(Trouble, st.integers(1, 6), st.sampled_from(said), st.integers(0, 3), st.just(True))
        if said
        else at_commit
    )
    return st.lists(at_commit | outside, max_size=most)


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
    """One tree on its way. `choices` are what people choose, and which of the things that can be done comes first.

    A run without an answer is retried at most `retries` times.
    """

    tree: AnAgent | AFlow
    troubles_given: Sequence[Trouble] = ()
    choices: Sequence[int] = (0,)
    retries: int = 0

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
        self.root = f"{'flow' if isinstance(self.code, BuiltWorkflow) else 'agent'}:{_KEY}"
        self.did = list[str]()

    def __repr__(self) -> str:
        return f"<TreeLife of {self.tree!r}: {self.came!r} {self.did!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.store.close()

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
        handle = self.handle(rows[-1 - trouble.stream % len(rows)].stream)
        with suppress(CommandRejected):
            await getattr(handle, trouble.what)(by="ana")

    def handle(self, stream: str) -> Any:
        kind, _, name = stream.partition(":")
        return self.watch.flow(name) if kind == "flow" else self.watch.session(name)

    async def begin(self, env: Environment) -> None:
        await Steptrail(env).run(self.code, "go", session=_KEY)

    async def resume(self, env: Environment, *, obeys_pause: bool) -> None:
        if isinstance(self.code, BuiltWorkflow):
            await FlowControl(env, _KEY, flow_means()).resume(self.code, obeys_pause=obeys_pause)
        else:
            await SessionControl(env, SessionId(_KEY)).resume(self.code, obeys_pause=obeys_pause)

    async def retry(self, env: Environment) -> None:
        trail = Steptrail(env)
        handle: Any = trail.flow(_KEY) if isinstance(self.code, BuiltWorkflow) else trail.session(_KEY)
        await handle.retry(self.code, by="ana")

    async def turn(self, work: Callable[[Environment], Awaitable[Any]]) -> None:
        """Have a new process do something, which may die of it."""
        process = Process(self)
        try:
            await work(self.environment(process, process.reach))
        except BaseException:
            if not process.is_dead:
                raise
        finally:
            await process.end()

    async def live(self) -> RunSummary:
        """Begin, and go on until the tree has ended; return the row of its root."""
        while not await self.watch.runs(limit=500):
            self.turns += 1
            await self.turn(self.begin)
        while True:
            self.turns += 1
            assert self.turns < _MOST_TURNS, f"it goes in circles: {self!r} {await self.watch.due()}"
            rows = await self.watch.runs(limit=500)
            by_stream = {row.stream: row for row in rows}
            root = by_stream[self.root]
            if root.is_open:
                await self.at_rest(by_stream)
                await self.go_on(by_stream)
            elif self.did.count("retry") < self.retries and not root.answered:
                self.did.append("retry")
                await self.turn(self.retry)
            else:
                await self.turn(lambda env: LeftBehind(env).stop())  # as each worker does
                return root

    async def at_rest(self, rows: dict[str, RunSummary]) -> None:
        """Check what is told of the tree while no process runs it."""
        due = {row.stream for row in await self.watch.due()}
        for stream, row in rows.items():
            said = await self.watch.handle(stream).why()
            assert said.verdict, stream
            assert said.waits_for is not None or row.standing is not StandingState.RESTING or stream in due, said
            if stream in due and row.parent is not None:
                above = rows[row.parent.stream]
                is_awaited = above.standing is StandingState.RESTING and stream in [wait.on for wait in above.waits]
                assert above.stream in due or not is_awaited, f"{stream} waits in vain"

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
