"""A tree of agents and workflows, its forks, and the world around: what processes do, and what comes in between.

A process dies at a drawn commit, before or after it, or another one takes over what it runs, or looks for what was left
behind; a person says something there or forks a session, or time goes by.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pytest

from steptrail import Message, Steptrail
from steptrail.domain.agent.ids import SessionId
from steptrail.domain.errors import CommandRejected
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.flow.means import flow_means
from steptrail.infrastructure.store.opening import open_store
from steptrail.messages import File
from steptrail.projections.questions import Question
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.left_behind import LeftBehind
from steptrail.workflow import BuiltWorkflow
from tests.properties.tree_code import SHARED, Outside, made
from tests.properties.tree_drawing import AFlow, AnAgent
from tests.properties.tree_forks import Fork, take_fork
from tests.properties.tree_processes import Processes
from tests.properties.tree_troubles import Trouble
from tests.runner.kit import HandClock

_KEY = "s"


@dataclass(repr=False)
class TreeWorld:
    """One tree on a store in memory, with the forks that are taken in it, and the world around them."""

    tree: AnAgent | AFlow
    troubles_given: Sequence[Trouble] = ()

    def __post_init__(self) -> None:
        self.store: Any = open_store("sqlite:///:memory:")
        self.clock = HandClock()
        self.processes = Processes(self.store, self._environment, self._before_a_commit)
        self.world = Outside(self.clock)
        self.world.moment = self._outside
        self._troubles = {(each.number, each.outside): each for each in self.troubles_given}
        self._commits = self._moments = 0
        self.came = list[Trouble]()
        self.watch = Steptrail(self._environment(self.store))
        self._code: Any = made(self.tree, self.world)
        self.root = f"{'flow' if isinstance(self._code, BuiltWorkflow) else 'agent'}:{_KEY}"
        self.forks = list[Fork]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.store.close()

    def _environment(self, store: Any, reach: Reach = no_faults) -> Environment:
        return Environment(store=store, clock=self.clock, worker="w", draw=lambda: 0.5, reach=reach)

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

    # What processes do.

    async def begin(self, env: Environment) -> None:
        is_flow = isinstance(self._code, BuiltWorkflow)
        await Steptrail(env).run(self._code, "go" if is_flow else Message.user("go", SHARED), session=_KEY)

    async def resume(
        self, env: Environment, *, stream: str, take_over: bool = False, obeys_pause: bool = False
    ) -> None:
        code, name = await self._code_of(stream), stream.partition(":")[2]
        if isinstance(code, BuiltWorkflow):
            await FlowControl(env, name, flow_means()).resume(code, take_over=take_over, obeys_pause=obeys_pause)
        else:
            await SessionControl(env, SessionId(name)).resume(code, take_over=take_over, obeys_pause=obeys_pause)

    async def retry(self, env: Environment, *, stream: str) -> None:
        trail, code, name = Steptrail(env), await self._code_of(stream), stream.partition(":")[2]
        handle: Any = trail.flow(name) if isinstance(code, BuiltWorkflow) else trail.session(name)
        await handle.retry(code, by="ana")

    async def say(self, env: Environment, *, stream: str) -> None:
        said = Message.user("and?", File.from_bytes(stream.encode()))
        await Steptrail(env).session(stream.partition(":")[2]).send(await self._code_of(stream), said, by="ana")

    async def sweep(self, env: Environment) -> None:
        """Do what each worker does now and then."""
        await LeftBehind(env).stop()

    async def _code_of(self, stream: str) -> Any:
        return self.world.code[(await self.rows())[stream].name]

    async def answer_call(self, asked: Question, **said: Any) -> None:
        """Answer an external call, and once more: under its key nothing follows from that, and else it is refused."""
        handle: Any = self.handle(asked.stream)
        await handle.answer(asked.id, **said, by="ana", key=asked.id)
        self.world.answered[asked.id] += 1
        await handle.answer(asked.id, **said, by="ana", key=asked.id)
        with pytest.raises(CommandRejected):
            await handle.answer(asked.id, "something else", by="ben")

    # What comes between.

    async def _before_a_commit(self) -> str | None:
        self._commits += 1
        trouble = self._troubles.pop((self._commits, False), None)
        if trouble is None:
            return None
        self.came.append(trouble)
        if trouble.what.startswith("crash"):
            return trouble.what
        await self._come(trouble)
        return None

    async def _outside(self) -> None:
        self._moments += 1
        trouble = self._troubles.pop((self._moments, True), None)
        if trouble is not None:
            self.came.append(trouble)
            await self._come(trouble)
        await self.processes.turn_of()

    async def _come(self, trouble: Trouble) -> None:
        if trouble.what == "time":
            self.clock.advance(15.0)
            return
        if trouble.what == "sweep":
            await self.processes.begin_beside(self.sweep, 1 + trouble.much)
            return
        if trouble.what == "answer":
            if asked := [each for each in await self.watch.inbox() if each.kind == "external"]:
                with suppress(CommandRejected):
                    await self.answer_call(asked[trouble.stream % len(asked)], result="known")
            return
        rows = [row for row in (await self.rows()).values() if trouble.what != "fork" or row.kind == "agent"]
        if not rows:
            return
        stream = rows[-1 - trouble.stream % len(rows)].stream
        if trouble.what == "fork":
            if (fork := await take_fork(self.handle(stream), f"f{len(self.forks)}", trouble.much)) is not None:
                self.forks.append(fork)
        elif trouble.what == "take over":
            await self.processes.begin_beside(partial(self.resume, stream=stream, take_over=True), 1 + trouble.much)
        else:
            with suppress(CommandRejected):
                await getattr(self.handle(stream), trouble.what)(by="ana")
