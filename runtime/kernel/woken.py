"""Hears of what is due from an engine, which wakes it; and sweeps for what no engine was told of.

A worker that is woken looks whether there is something to do, so a wake too many costs a look. A wake too few is made
up for by the sweep, which one worker of the store does at a time.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count

from msgspec.structs import replace

from steptrail.domain.errors import SessionBusy, SteptrailError
from steptrail.domain.newest import Newest
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.due_look import DueLook
from steptrail.runtime.kernel.engine import Engine, Wake, WorkerReport, topic_of, wake_of
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands, NotTaken
from steptrail.runtime.kernel.left_behind import LeftBehind
from steptrail.runtime.kernel.lists import row_of
from steptrail.runtime.kernel.log_raised import Seldom, log_raised, said_by
from steptrail.runtime.kernel.room import Place
from steptrail.runtime.kernel.waking import HORIZON_SECONDS

SWEEP_SECONDS = 5.0
"""How often one worker looks for what no engine was told of."""
_SAY_SECONDS = 2.0
"""How often a worker says what it does."""
_SWEEP, _TURN = "fleet:sweep", 3
"""The lease of who looks, and how many looks it has. Then others have a turn: the clock of one of them may be wrong."""
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 2.0, 60.0
"""After how many seconds a wake that found no place, or no agent that fits, comes again: twice as late each time."""
_TRY_AGAIN_SECONDS = 1.0
"""After how many seconds a wake comes again that the store refused to look at."""
_FAREWELLS, _FAREWELL_SECONDS = 3, 1.0
"""How often, and for how long each time, an engine may go on with what it has begun when a worker ends."""
_MOST_RESTS, _PAGE = 10_000, 500
_workers = count(1)

_log = logging.getLogger("steptrail.runs")


class Woken:
    """Gives hands what an engine wakes. `topics` are the kinds and names of what this worker can carry on."""

    def __init__(self, environment: Environment, engine: Engine, topics: Sequence[str]) -> None:
        self._env, self._engine, self._topics = environment, engine, tuple(topics)
        number = next(_workers)
        self._name = environment.worker if number == 1 else f"{environment.worker}#{number}"
        self._left_behind = LeftBehind(environment)
        self._due = DueLook(environment.store, time.monotonic, least=0.0)
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._again: set[asyncio.Task[None]] = set()
        self._wakes = self._without_effect = 0
        self._rests = Newest[str, int](_MOST_RESTS)
        """How many times the wake of a stream was put back here."""
        self._waiting: dict[Place | None, OrderedDict[str, RunSummary]] = {}
        """Those that found no place, by the place that was taken; None stands for all hands."""

    async def begin(self, hands: Hands) -> None:
        """Connect to the engine, and begin to be woken. Raises `StoreUnavailable`."""
        hands.on_ended = self._note_end
        await self._engine.open()
        coming = self._engine.run(
            partial(self._woken, hands), topics=self._topics, concurrency=hands.room.concurrency, until=self._ending
        )
        self._tasks = [asyncio.create_task(each) for each in (coming, self._sweep(hands), self._say(hands))]

    async def give_no_more(self) -> None:
        """Take no more wakes. Safe to call twice."""
        self._ending.set()

    async def end(self) -> None:
        """End, when nothing is in hand any more. Safe to call twice."""
        self._ending.set()
        tasks, self._tasks = self._tasks, []
        if not tasks:
            return
        for task in (rest := {*tasks[1:], *self._again}):
            task.cancel()
        # The engine says farewell to its server, and one that is away is not waited for: it forgets a worker by itself.
        if await self._ends({tasks[0], *rest}):
            await self._ends({asyncio.create_task(self._say_farewell())})

    async def _ends(self, late: "set[asyncio.Task[None]]") -> bool:
        """Wait until these have ended, and cancel them again and again; tell whether they have."""
        for _ in range(_FAREWELLS):
            ended, late = await asyncio.wait(late, timeout=_FAREWELL_SECONDS)
            for task in ended:
                if not task.cancelled() and (error := task.exception()) is not None:
                    said = "the engine %s has failed a worker"
                    log_raised(_log, error, said, self._engine.name, level=logging.ERROR)
            if not late:
                return True
            for task in late:
                task.cancel()
        return False

    async def _say_farewell(self) -> None:
        with suppress(SteptrailError):
            await self._engine.report(None, self._name)

    def report(self, hands: Hands) -> WorkerReport:
        """Return what there is to say of the worker."""
        known = hands.report(self._name, self._topics)
        return replace(known, wakes=self._wakes, without_effect=self._without_effect)

    async def _woken(self, hands: Hands, wake: Wake) -> None:
        self._wakes += 1
        had_effect = False
        try:
            had_effect = await self._looked_at(hands, wake)
        except Exception as error:  # as in `Looking`
            _log.warning("a wake of %s came to nothing, and comes again: %s", wake.stream, said_by(error))
            await self._put_back(replace(wake, seconds=_TRY_AGAIN_SECONDS))
        finally:
            self._without_effect += not had_effect

    async def _looked_at(self, hands: Hands, wake: Wake) -> bool:
        """Carry a stream on for as long as it is due and can be; tell whether anything was done."""
        had_effect = False
        while True:
            if (task := hands.task_of(wake.stream)) is not None:
                await asyncio.wait({task})
                continue
            now = self._env.clock.utc()
            row = await row_of(self._env.store, wake.stream, now)
            if row is None:
                return had_effect
            if row.parent is not None:
                if (root := await row_of(self._env.store, row.parent.root_stream, now)) is not None and root.due:
                    await self._put_back(wake_of(root))
                return had_effect
            if row.due is None:
                if row.due_at is not None and now < row.due_at <= now + HORIZON_SECONDS * 1e6:
                    await self._put_back(wake_of(row, at=row.due_at, now=now))
                return had_effect
            if rest := await hands.rest_of(row):
                await self._put_back(replace(wake_of(row), seconds=rest))
                return had_effect
            taken = NotTaken.ENDING if self._ending.is_set() else await hands.take(row)
            if taken is NotTaken.ENDING:
                await self._put_back(wake_of(row))
                return had_effect
            if taken is NotTaken.HELD:
                continue
            if isinstance(taken, NotTaken):
                await self._rest(hands, row, is_full=taken is NotTaken.FULL)
                return had_effect
            await asyncio.wait({taken})
            if await hands.rest_of(row):
                continue
            had_effect = True
            if hands.has_left(row.stream):
                await self._rest(hands, row, is_full=False)
                return had_effect
            self._rests.pop(row.stream, None)

    async def _rest(self, hands: Hands, row: RunSummary, *, is_full: bool) -> None:
        """Have the stream woken later, here or elsewhere: twice as late each time, and sooner when a place is free."""
        times = self._rests.keep(row.stream, self._rests.get(row.stream, -1) + 1)
        if is_full:
            place = None if hands.room.is_full else hands.room.full(hands.room.places_of(row))
            waiting = self._waiting.setdefault(place, OrderedDict())
            if len(waiting) < _MOST_RESTS:
                waiting[row.stream] = row
        seconds = min(_FIRST_REST_SECONDS * 2.0 ** min(times, 16), _LONGEST_REST_SECONDS)
        spread = 0.75 + random.random() / 2  # noqa: S311 - spreads wakes
        await self._put_back(replace(wake_of(row), seconds=seconds * spread))

    async def _put_back(self, wake: Wake) -> None:
        try:
            await self._engine.wake(wake)
        except Exception as error:  # as in `Looking`
            _log.warning("the engine was not told of %s, which the sweep will find: %s", wake.stream, said_by(error))

    def _note_end(self, stream: str, places: tuple[Place, ...]) -> None:
        """Wake one of those that waited for each place that has become free."""
        for place in (*places, None):
            if waiting := self._waiting.get(place):
                _, row = waiting.popitem(last=False)
                again = asyncio.create_task(self._put_back(wake_of(row)))
                self._again.add(again)
                again.add_done_callback(self._again.discard)

    async def _sweep(self, hands: Hands) -> None:
        """Tell the engine of what is due and it was not told of; one worker of the store at a time."""
        seldom = Seldom(_log)
        while True:
            try:
                lease = await self._env.store.acquire(_SWEEP, owner=self._name)
                try:
                    for look in range(_TURN):
                        if look:
                            await asyncio.sleep(max(SWEEP_SECONDS, self._due.rest))
                        await self._sweep_once(hands)
                        seldom.over()
                finally:
                    await lease.release()
            except SessionBusy:
                seldom.over()
            except Exception as error:  # as in `Looking`
                if not self._env.fanout.is_closed:
                    said = "a worker could not look for what no wake was told of, and tries again: %s"
                    seldom.warn(said, said_by(error))
            await asyncio.sleep(max(SWEEP_SECONDS, self._due.rest))

    async def _sweep_once(self, hands: Hands) -> None:
        now, rows = self._env.clock.utc(), list[RunSummary]()
        async with aclosing(self._due.rows(now, now + round(HORIZON_SECONDS * 1e6), _PAGE)) as found:
            async for row in found:
                rows.append(row)
                if len(rows) >= _PAGE:
                    await self._tell(hands, rows, now)
                    rows.clear()
        await self._tell(hands, rows, now)
        await self._left_behind.stop()

    async def _tell(self, hands: Hands, rows: Sequence[RunSummary], now: int) -> None:
        """Have those streams woken of which the engine knows nothing."""
        wakes = [wake_of(row, at=None if row.due is not None else row.due_at, now=now) for row in rows]
        if wakes and (missed := await self._engine.wake_missed(wakes)):
            _log.info("%d sessions were due or will be soon, and the engine %s hears of it", missed, self._engine.name)
        await self._say_what_nobody_serves(hands, [row for row in rows if row.due is not None])

    async def _say_what_nobody_serves(self, hands: Hands, rows: Sequence[RunSummary]) -> None:
        """Leave what is due and no worker of the fleet can carry on: nobody is woken for it, so nobody else says so."""
        strange = [row for row in rows if topic_of(row) not in self._topics and not hands.has_left(row.stream)]
        if not strange:
            return
        topics = (await self._engine.status()).topics
        for row in strange:
            if (topic := topics.get(topic_of(row))) is None or not topic.is_served:
                await hands.take(row)

    async def _say(self, hands: Hands) -> None:
        """Say what this worker does, for those who look after it."""
        while True:
            try:
                await self._engine.report(self.report(hands), self._name)
            except Exception as error:  # as in `Looking`
                _log.debug("a worker could not say what it does: %s", said_by(error))
            await asyncio.sleep(_SAY_SECONDS)
