"""An engine that does on purpose all that a worker must stand: it wakes twice, late, too early, two at once, or never.

What it was told and did not do is not done by anybody but the sweep. All that it does follows from its seed.
"""

import asyncio
import random
from collections.abc import Sequence

from steptrail.runtime.kernel.engine import EngineStatus, Handler, TopicStatus, Wake, WorkerReport

_LATE = (0.0, 0.0, 0.02, 0.1)
_TIMES = (0, 1, 1, 1, 2, 3)


class Mischief:
    """What stands for the server: the wakes that wait, and the handlers of all workers."""

    def __init__(self, seed: int = 1) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - chooses mischief
        self.handlers: list[tuple[Handler, frozenset[str]]] = []
        self.waiting: dict[str, Wake] = {}
        self.reports: dict[str, WorkerReport] = {}
        self.forgotten = self.doubled = self.cancelled = 0

    def told(self, wake: Wake) -> None:
        times = self.draw.choice(_TIMES)
        self.forgotten += times == 0
        self.doubled += times > 1
        for _ in range(times):
            self.waiting[wake.stream] = wake
            task = asyncio.create_task(self._wake(wake))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    async def _wake(self, wake: Wake) -> None:
        if wake.seconds and self.draw.random() < 0.7:  # or much too early
            await asyncio.sleep(wake.seconds)
        await asyncio.sleep(self.draw.choice(_LATE))
        while not (able := [handler for handler, topics in self.handlers if wake.topic in topics]):
            await asyncio.sleep(0.02)
        self.waiting.pop(wake.stream, None)
        await self.draw.choice(able)(wake)


_tasks: set["asyncio.Task[None]"] = set()


class MischievousEngine:
    """The way of one trail to the mischief."""

    name = "mischief"

    def __init__(self, mischief: Mischief) -> None:
        self._mischief = mischief

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def wake(self, wake: Wake) -> None:
        self._mischief.told(wake)

    async def wake_missed(self, wakes: Sequence[Wake]) -> int:
        missed = [wake for wake in wakes if wake.stream not in self._mischief.waiting]
        for wake in missed:
            self._mischief.told(wake)
        return len(missed)

    async def cancel(self, stream: str) -> None:
        self._mischief.cancelled += 1  # and that is all

    async def run(self, handler: Handler, *, topics: Sequence[str], concurrency: int, until: asyncio.Event) -> None:
        del concurrency  # it does not count
        entry = (handler, frozenset(topics))
        self._mischief.handlers.append(entry)
        await until.wait()
        self._mischief.handlers.remove(entry)

    async def report(self, report: WorkerReport | None, worker: str) -> None:
        if report is None:
            self._mischief.reports.pop(worker, None)
        else:
            self._mischief.reports[worker] = report

    async def status(self) -> EngineStatus:
        return EngineStatus(
            topics={
                topic: TopicStatus(is_served=any(topic in topics for _, topics in self._mischief.handlers))
                for topic in {wake.topic for wake in self._mischief.waiting.values()}
            },
            workers=tuple(self._mischief.reports.values()),
        )
