"""Lives of trees and forks: what rests is gone on with when it is due, until all have ended.

What people are asked is answered, what they paused is unpaused, and a clock that nothing else would move goes on.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from steptrail.domain.errors import ErasureRefused
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.projections.questions import Question
from tests.properties.tree_world import TreeWorld

_MOST_TURNS = 200
"""Far more than any of these lives needs: with so many it goes in circles."""


@dataclass(repr=False)
class TreeLife(TreeWorld):
    """One tree on its way, and its forks. `choices` are what people choose, and what comes first of what can be done.

    A run without an answer is retried at most `retries` times. In a fork of what had ended something more is said.
    """

    choices: Sequence[int] = (0,)
    retries: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choices = cycle(self.choices or (0,))
        self._turns, self._retried = 0, Counter[str]()
        self.did = list[str]()

    def __repr__(self) -> str:
        return f"<TreeLife of {self.tree!r}: {self.came!r} {self.did!r}>"

    def _pick(self, of: Sequence[Any]) -> Any:
        return of[next(self._choices) % len(of)]

    async def live(self) -> None:
        """Begin, and go on until the tree and all forks have ended."""
        while not await self.rows():
            await self.processes.do(self.begin)
        while True:
            self._turns += 1
            assert self._turns < _MOST_TURNS, f"it goes in circles: {self!r} {await self.watch.due()}"
            rows = await self.rows()
            if any(rows[root].is_open for root in self.roots):
                await self._at_rest(rows)
                await self._go_on(rows)
            elif not await self._begin_again(rows):
                await self.processes.do(self.sweep)
                return

    async def _at_rest(self, rows: dict[str, RunSummary]) -> None:
        """Check what is told of the trees while no process runs them."""
        due = {row.stream for row in await self.watch.due()}
        for stream, row in rows.items():
            said = await self.watch.handle(stream).why()
            assert said.verdict, stream
            assert said.waits_for is not None or row.standing is not StandingState.RESTING or stream in due, said
            if stream in due and row.parent is not None:
                above = rows[row.parent.stream]
                is_awaited = above.standing is StandingState.RESTING and stream in [wait.on for wait in above.waits]
                assert above.stream in due or not is_awaited, f"{stream} waits in vain"

    async def _begin_again(self, rows: dict[str, RunSummary]) -> bool:
        """Retry a run without an answer, or say more in a fork of one that had ended; tell whether there was one."""
        unsaid = {
            fork.stream
            for fork in self.forks
            if not fork.shared.is_open and rows[fork.stream].executions == fork.shared.fold.executions
        }
        for root in self.roots:
            if not rows[root].answered and self._retried[root] < self.retries:
                self._retried[root] += 1
                self.did.append(f"retry {root}")
                await self.processes.do(partial(self.retry, stream=root))
                return True
            if root in unsaid:
                self.did.append(f"say in {root}")
                await self.processes.do(partial(self.say, stream=root))
                return True
        return False

    async def _go_on(self, rows: dict[str, RunSummary]) -> None:
        due = {row.stream for row in await self.watch.due()}
        if roots := [root for root in self.roots if root in due]:
            # A worker keeps the pauses of people, and a person who goes on lifts them.
            self.did.append("resume")
            stream, worker = self._pick(roots), self._pick([True, False])
            await self.processes.do(partial(self.resume, stream=stream, obeys_pause=worker))
            return
        questions = await self.watch.inbox()
        paused = [stream for stream, row in rows.items() if row.standing is StandingState.PAUSED]
        times = [row.due_at for row in rows.values() if row.due_at is not None and row.due_at > self.clock.utc()]
        can = ["answer"] * bool(questions) + ["unpause"] * bool(paused) + ["time"] * bool(times)
        assert can, f"it rests, and nothing can bring it on: {self!r} {rows!r}"
        what = self._pick(can)
        self.did.append(what)
        if what == "answer":
            await self._answer(self._pick(questions))
        elif what == "unpause":
            await self.handle(self._pick(sorted(paused))).unpause(by="ana")
        else:
            self.clock.reach(min(times))

    async def _answer(self, asked: Question) -> None:
        handle: Any = self.handle(asked.stream)
        match asked.kind:
            case "approval":
                yes = self._pick([True, True, False])
                await (handle.approve(asked.id, by="ana") if yes else handle.deny(asked.id, by="ana"))
            case "external":
                yes = self._pick([True, True, False])
                await self.answer_call(asked, **({"result": "known"} if yes else {"error": "nobody knows"}))
            case "unknown_outcome":
                await handle.settle(asked.id, self._pick(["completed", "failed"]), by="ana")
            case _:
                await handle.answer(asked.id, approved=self._pick([True, True, False]), by="ana")

    async def erase(self) -> None:
        """Erase one of the trees, with all that cannot be without it, when all have ended. The others do not change."""
        root, before = self._pick(self.roots), await self._logs()
        erase = partial(self.watch.erase, id_of(root) if root.startswith("agent:") else root, by="ana", reason="asked")
        gone = {each.stream for each in (await erase(cascade=True, dry_run=True)).erased}
        if len(gone) > 1:
            with pytest.raises(ErasureRefused):
                await erase()
        assert {each.stream for each in (await erase(cascade=True)).erased} == gone
        self.forks = [fork for fork in self.forks if fork.stream not in gone]
        assert await self._logs() == {stream: log for stream, log in before.items() if stream not in gone}

    async def _logs(self) -> dict[str, Any]:
        return {stream: await self.handle(stream).events() for stream in await self.rows()}
