"""The hands of a worker: they carry runs on, remember what was left as it was, and let go when the worker ends.

Where a worker hears of what is due is no matter of theirs.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    ConcurrencyConflict,
    OwnershipLost,
    SessionBusy,
    SessionErased,
    SteptrailError,
    StoreUnavailable,
    stream_name,
)
from steptrail.domain.kernel.commands import CALLER, Pause
from steptrail.domain.newest import Newest
from steptrail.domain.shared.due import DueCause
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.engine import WorkerReport
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.lists import due_below, is_due
from steptrail.runtime.kernel.log_raised import Seldom, log_raised
from steptrail.runtime.kernel.room import Place, Room

Work = Callable[[], Coroutine[Any, Any, object]]
Carry = Callable[[RunSummary], Work | None]
"""Returns a function that goes on with a run; None for a run that this process leaves to others."""
OnLeft = Callable[[RunSummary, Exception | None], None]

_MOST_LEFT = 10_000
"""How many streams are remembered as left; the oldest are tried again then."""
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 1.0, 10.0
"""How long a stream has a rest that the store has refused, or that cannot be gone on with because of one below it.

Each time it is twice as long. Others have the hand meanwhile."""
_FAREWELL_SECONDS = 12.0
"""How long a run may take to end that was cut off: its resources may take ten. One waits longer for a silent store."""

_log = logging.getLogger("steptrail.runs")


class NotTaken(Enum):
    """Why a run was not begun with."""

    FULL = auto()
    """All hands are full, or those for its agent or its tenant."""
    LEFT = auto()
    """Nothing here can carry it on, or that was tried and the run has not moved since, or it has a rest."""
    HELD = auto()
    """It is being carried on here already."""
    ENDING = auto()
    """The worker ends."""


class _Left(Struct, frozen=True):
    """A stream that was left as it was: the version of its row, its own, and those of what it is due because of."""

    row_version: int
    version: int
    below: Mapping[str, int]


class _Resting(Struct):
    """A stream that could not go on: what tells of it, its rest by the loop's clock, and what stands still below it."""

    told: Seldom
    seconds: float = 0.0
    rests_until: float = 0.0
    below: Mapping[str, int] = MappingProxyType({})


class Hands:
    """Carries runs on. `on_ended` is called each time when one has ended, with its stream and the places it had.

    `on_left` is told of each run that is left as it is, with the error of the attempt to carry it on. The error is None
    where nothing here can carry it on, or where that did not move it.
    """

    def __init__(
        self, environment: Environment, carry: Carry, *, room: Room, grace: float, on_left: OnLeft | None = None
    ) -> None:
        self._env, self._carry, self._room, self._grace, self._on_left = environment, carry, room, grace, on_left
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._left = Newest[str, _Left](_MOST_LEFT)
        self._refused = Newest[str, _Resting](_MOST_LEFT)
        self._is_ending, self._began_at = False, environment.clock.utc()
        self.on_ended: Callable[[str, tuple[Place, ...]], None] = lambda stream, places: None

    @property
    def running(self) -> Sequence[str]:
        """The streams that are being carried on here now."""
        return tuple(self._tasks)

    @property
    def left(self) -> Mapping[str, int]:
        """The streams that are due and were left as they are, each with the version at which that was."""
        return {stream: left.version for stream, left in self._left.items()}

    @property
    def room(self) -> Room:
        """How much is carried on at once."""
        return self._room

    def report(self, worker: str, topics: tuple[str, ...]) -> WorkerReport:
        """Return what there is to say of a worker that has these hands."""
        return WorkerReport(
            worker=worker,
            topics=topics,
            concurrency=self._room.concurrency,
            began_at=self._began_at,
            seen_at=self._env.clock.utc(),
            running=tuple(self.running),
            left=tuple(self._left),
        )

    def forget_left_but(self, streams: Iterable[str]) -> None:
        """Remember of what was left only these streams."""
        for stream in self._left.keys() - set(streams):
            del self._left[stream]

    def has_left(self, stream: str) -> bool:
        """Tell whether a stream was left as it was, whether or not it has moved since."""
        return stream in self._left

    async def rest_of(self, row: RunSummary) -> float:
        """Return for how many seconds a stream is not taken, because the last attempt came to nothing; else 0.

        What goes on below it beside one that cannot be gone on with does not wait for that.
        """
        refused = self._refused.get(row.stream)
        rest = 0.0 if refused is None else max(0.0, refused.rests_until - asyncio.get_running_loop().time())
        has_more = rest and refused is not None and refused.below and await self._due_below(row) != refused.below
        return 0.0 if has_more else rest

    def task_of(self, stream: str) -> "asyncio.Task[None] | None":
        """Return the task that carries a stream on; None when there is none."""
        return self._tasks.get(stream)

    async def take(self, row: RunSummary) -> "asyncio.Task[None] | NotTaken":
        """Begin to carry a run on, and return the task of that; or why it was not begun with."""
        before = self._left.get(row.stream)
        if await self.rest_of(row) or await self._is_left(row):
            return NotTaken.LEFT
        work = self._carry(row)
        if work is None:
            self._leave(row, await self._env.store.version(row.stream))
            _log.info("session %s is due, and left to a worker that has %r", stream_name(row.stream), row.name)
            return NotTaken.LEFT
        places = self._room.places_of(row)
        # Nothing more is read of the many that wait for the same place.
        if (not_now := self._not_now(row, places)) is not None:
            return not_now
        version = await self._env.store.version(row.stream)
        # It may have been tried and left meanwhile, by another take.
        if self._left.get(row.stream) is not before and await self._is_left(row):
            return NotTaken.LEFT
        if (not_now := self._not_now(row, places)) is not None:
            return not_now
        self._left.pop(row.stream, None)
        self._room.enter(row.stream, places)
        task = self._tasks[row.stream] = asyncio.create_task(self._carried(row, version, work))
        task.add_done_callback(partial(self._ended, row.stream))
        return task

    def _not_now(self, row: RunSummary, places: tuple[Place, ...]) -> NotTaken | None:
        if self._is_ending:
            return NotTaken.ENDING
        if row.stream in self._tasks:
            return NotTaken.HELD
        if self._room.is_full or self._room.full(places) is not None:
            return NotTaken.FULL
        return None

    async def _is_left(self, row: RunSummary) -> bool:
        """Tell whether a stream stands as it did when it was left."""
        if (left := self._left.get(row.stream)) is None:
            return False
        if left.below:
            # Other workers may have tried in vain, too, which makes the stream longer.
            return await self._due_below(row) == left.below
        # A row is written when the standing changes, and an owner that has died may have gone on without that.
        is_same = row.version == left.row_version and not row.is_crashed
        return is_same or left.version == await self._env.store.version(row.stream)

    async def drain(self) -> None:
        """Take nothing more, ask what runs to pause, and let it end within the grace."""
        self._is_ending = True
        asking = [asyncio.create_task(self._ask_to_pause(stream)) for stream in self._tasks]
        try:
            if asking:
                await asyncio.wait({*asking, *self._tasks.values()}, timeout=self._grace)
        finally:
            # A store that is slow to answer is waited for no longer either.
            for task in asking:
                task.cancel()

    async def cut_off(self) -> None:
        """Take nothing more, cut off what runs, and leave behind what has not ended a good while later.

        A caller that is cancelled waits for that first.
        """
        self._is_ending = True
        late = tuple(self._tasks.values())
        for task in late:
            task.cancel()
        if not late:
            return
        ended = asyncio.gather(*late, return_exceptions=True)
        cancelled = await wait_through(ended, timeout=_FAREWELL_SECONDS)
        for stream in self._tasks:
            said = "session %s was cut off, does not end, and is left behind as it is stored"
            _log.warning(said, stream_name(stream))
        if cancelled is not None:
            raise cancelled

    async def _ask_to_pause(self, stream: str) -> None:
        with suppress(SteptrailError):  # it has just ended
            await control_of(self._env, stream).request(Pause(by=CALLER, reason="its worker drains"))

    def _ended(self, stream: str, task: "asyncio.Task[None]") -> None:
        del task, self._tasks[stream]
        self.on_ended(stream, self._room.leave(stream))

    async def _carried(self, row: RunSummary, version: int, work: Work) -> None:
        """Do the work, and remember a run that it did not move, so that it is not tried again and again."""
        try:
            below = await self._due_below(row)
            await work()
            # Others may have ended it before it was taken here.
            is_same = await self._env.store.version(row.stream) == version
            if is_same and await is_due(self._env.store, row.stream, self._env.clock.utc()):
                self._leave(row, version)
            elif below and await self._has_moved_nothing(row, below):
                return
        except (SessionBusy, OwnershipLost) as error:
            _log.debug("session %s is carried on by another process: %s", stream_name(row.stream), error)
        except SessionErased as error:
            _log.debug("session %s is not there to be carried on: %s", stream_name(row.stream), error)
        except (StoreUnavailable, ConcurrencyConflict, AppendOutcomeUnknown) as error:
            self._rest(row, error)
            return
        except MemoryError:
            self._rest(row, "this process has no memory left")
            return
        except SteptrailError as error:
            self._leave(row, version, error)
            _log.warning("session %s is due, and left as it is: %s", stream_name(row.stream), error)
        except Exception as error:
            self._leave(row, version, error)
            said = "session %s is due, and could not be carried on"
            log_raised(_log, error, said, stream_name(row.stream), level=logging.ERROR)
        self._refused.pop(row.stream, None)

    async def _due_below(self, row: RunSummary) -> Mapping[str, int]:
        if row.due is None or row.due.cause is not DueCause.CHILD:
            return {}
        return await due_below(self._env.store, row.stream, self._env.clock.utc())

    async def _has_moved_nothing(self, row: RunSummary, below: Mapping[str, int]) -> bool:
        """Tell whether a stream is due again because of streams below it that stand as they did before the work.

        Then it has a rest, and is left in the end until one of them moves: each try makes its own stream longer.
        """
        store, now = self._env.store, self._env.clock.utc()
        stuck = await due_below(store, row.stream, now)
        if not stuck or not stuck.items() <= below.items():
            return False
        names, resting = ", ".join(map(stream_name, [*stuck][:3])), self._refused.get(row.stream)
        if resting is None or resting.seconds < _LONGEST_REST_SECONDS:
            self._rest(row, f"this process cannot go on with {names}, which it waits for", stuck)
            return True
        self._leave(row, await store.version(row.stream), below=stuck)
        _log.warning("session %s is due, and left as it is until %s has moved", stream_name(row.stream), names)
        return False

    def _rest(self, row: RunSummary, why: Exception | str, below: Mapping[str, int] = MappingProxyType({})) -> None:
        """Leave a stream for a while that could not go on. It comes again however often that is."""
        refused = self._refused.keep(row.stream, self._refused.get(row.stream) or _Resting(Seldom(_log)))
        refused.below = below
        refused.seconds = min(2 * refused.seconds or _FIRST_REST_SECONDS, _LONGEST_REST_SECONDS)
        refused.rests_until = asyncio.get_running_loop().time() + refused.seconds
        refused.told.warn("session %s is left for a while: %s", stream_name(row.stream), why)

    def _leave(
        self,
        row: RunSummary,
        version: int,
        error: Exception | None = None,
        below: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._left.keep(row.stream, _Left(row.version, version, below))
        if self._on_left is not None:
            try:
                self._on_left(row, error)
            except Exception as raised:
                said = "what is told of session %s, which is left as it is, has failed"
                log_raised(_log, raised, said, stream_name(row.stream), level=logging.ERROR)
