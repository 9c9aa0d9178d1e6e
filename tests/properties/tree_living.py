"""Lives of trees of agents and workflows: the real runtime on a store in memory, with what may come in between.

A process dies at a drawn commit, before or after it, or another one takes over what it runs; a person says something
there or forks a session, or time goes by. What rests is gone on with when it is due, what people are asked is answered,
and a clock that nothing else would move is put forward. The same is done with each fork.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Self

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
from tests.properties.tree_code import Outside, made
from tests.properties.tree_drawing import AFlow, AnAgent
from tests.properties.tree_forks import Fork, take_fork
from tests.properties.tree_processes import Processes
from tests.properties.tree_troubles import Trouble
from tests.runner.kit import HandClock

__all__ = ["TreeLife"]

_KEY, _MOST_TURNS = "s", 200
"""Far more than any of these lives needs: with so many it goes in circles."""


@dataclass(repr=False)
class TreeLife:
    """One tree on its way, and its forks. `choices` are what people choose, and what comes first of what can be done.

    A run without an answer is retried at most `retries` times. In a fork of a run that has answered something more is
    said.
    """

    tree: AnAgent | AFlow
    troubles_given: Sequence[Trouble] = ()
    choices: Sequence[int] = (0,)
    retries: int = 0

    def __post_init__(self) -> None:
        self.store: Any = open_store("sqlite:///:memory:")
        self.clock = HandClock()
        self.processes = Processes(self.store, self.environment, self._before_a_commit)
        self.world = Outside(self.clock)
        self.world.moment = self._outside
        self.troubles = {(each.number, each.outside): each for each in self.troubles_given}
        self.came = list[Trouble]()
        self.commits = self.moments = self.turns = 0
        self._choices = cycle(self.choices or (0,))
        self.watch = Steptrail(self.environment(self.store))
        self.code: Any = made(self.tree, self.world)
        self.root = f"{'flow' if isinstance(self.code, BuiltWorkflow) else 'agent'}:{_KEY}"
        self.forks = list[Fork]()
        self.retried, self.did = Counter[str](), list[str]()

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

    @property
    def was_cut(self) -> bool:
        """Whether a process died, or lost a run to another one."""
        return any(trouble.what.startswith(("crash", "take over")) for trouble in self.came)

    @property
    def roots(self) -> Sequence[str]:
        """The streams that stand at the top of a tree."""
        return (self.root, *[fork.stream for fork in self.forks])

    async def rows(self) -> dict[str, RunSummary]:
        """Return the rows of all streams by their ids, the newest first."""
        return {row.stream: row for row in await self.watch.runs(limit=500)}

    def handle(self, stream: str) -> Any:
        kind, _, name = stream.partition(":")
        return self.watch.flow(name) if kind == "flow" else self.watch.session(name)

    # What comes in between.

    async def _before_a_commit(self) -> str | None:
        self.commits += 1
        trouble = self.troubles.pop((self.commits, False), None)
        if trouble is None:
            return None
        self.came.append(trouble)
        if trouble.what.startswith("crash"):
            return trouble.what
        await self._come(trouble)
        return None

    async def _outside(self) -> None:
        self.moments += 1
        trouble = self.troubles.pop((self.moments, True), None)
        if trouble is not None:
            self.came.append(trouble)
            await self._come(trouble)
        await self.processes.turn_of()

    async def _come(self, trouble: Trouble) -> None:
        """Have a person say something to one of the streams or fork it, another process take it over, or time go by."""
        if trouble.what == "time":
            self.clock.advance(15.0)
            return
        if trouble.what == "sweep":
            await self.processes.begin_beside(_stop_what_was_left, 100)
            return
        rows = [row for row in (await self.rows()).values() if trouble.what != "fork" or row.kind == "agent"]
        if not rows:
            return
        stream = rows[-1 - trouble.stream % len(rows)].stream
        if trouble.what == "fork":
            if (fork := await take_fork(self.handle(stream), f"f{len(self.forks)}", trouble.much)) is not None:
                self.forks.append(fork)
        elif trouble.what == "take over":
            go_on = partial(self.resume, stream=stream, take_over=True)
            await self.processes.begin_beside(go_on, 1 + trouble.much)
        else:
            with suppress(CommandRejected):
                await getattr(self.handle(stream), trouble.what)(by="ana")

    # What is done with a tree.

    async def begin(self, env: Environment) -> None:
        await Steptrail(env).run(self.code, "go", session=_KEY)

    async def resume(self, env: Environment, *, stream: str, **how: bool) -> None:
        code: Any = self.world.code[(await self.rows())[stream].name]
        name = stream.partition(":")[2]
        if isinstance(code, BuiltWorkflow):
            await FlowControl(env, name, flow_means()).resume(code, **how)
        else:
            await SessionControl(env, SessionId(name)).resume(code, **how)

    async def retry(self, env: Environment, *, stream: str) -> None:
        trail, name = Steptrail(env), stream.partition(":")[2]
        code: Any = self.world.code[(await self.rows())[stream].name]
        handle: Any = trail.flow(name) if isinstance(code, BuiltWorkflow) else trail.session(name)
        await handle.retry(code, by="ana")

    async def say(self, env: Environment, *, stream: str) -> None:
        code: Any = self.world.code[(await self.rows())[stream].name]
        await Steptrail(env).session(stream.partition(":")[2]).send(code, "and?", by="ana")

    async def live(self) -> None:
        """Begin, and go on until the tree and all forks have ended."""
        while not await self.rows():
            await self.processes.do(self.begin)
        while True:
            self.turns += 1
            assert self.turns < _MOST_TURNS, f"it goes in circles: {self!r} {await self.watch.due()}"
            rows = await self.rows()
            if any(rows[root].is_open for root in self.roots):
                await self.at_rest(rows)
                await self.go_on(rows)
            elif not await self.begin_again(rows):
                await self.processes.do(_stop_what_was_left)
                return

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

    async def begin_again(self, rows: dict[str, RunSummary]) -> bool:
        """Retry a run without an answer, or say more in a fork of one that has answered; tell whether there was one."""
        for root in self.roots:
            forked = next((fork for fork in self.forks if fork.stream == root), None)
            if not rows[root].answered and self.retried[root] < self.retries:
                self.retried[root] += 1
                self.did.append(f"retry {root}")
                await self.processes.do(partial(self.retry, stream=root))
                return True
            if (
                forked is not None
                and rows[root].executions == forked.shared.fold.executions
                and not forked.shared.is_open
            ):
                self.did.append(f"say in {root}")
                await self.processes.do(partial(self.say, stream=root))
                return True
        return False

    async def go_on(self, rows: dict[str, RunSummary]) -> None:
        due = {row.stream for row in await self.watch.due()}
        roots = [root for root in self.roots if root in due]
        if roots:
            # A worker keeps the pauses of people, and a person who goes on lifts them.
            self.did.append("resume")
            go_on = partial(self.resume, stream=self.pick(roots), obeys_pause=self.pick([True, False]))
            await self.processes.do(go_on)
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


async def _stop_what_was_left(env: Environment) -> None:
    """Do what each worker does now and then."""
    await LeftBehind(env).stop()
