"""The smallest machine that does everything a machine can: it counts to three in the world outside.

Before it counts two it asks a person, if it is to. What goes wrong outside is tried again an hour later.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionPaused,
    PauseLifted,
    PauseRequested,
    SessionStarted,
    StopRequested,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.commands import CALLER, Leave, OwnersCommand, Pause, Stop, Unpause
from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import Recorded, StreamVersion
from steptrail.domain.kernel.standing import Standing, StandingState, Wait
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.running_effects import Cut, Deaf
from steptrail.runtime.kernel.segment import Segment
from tests.contracts.machine_contract import HOUR
from tests.kinds.bell import STATUSES

LAST, ASKS_BEFORE = 3, 2


class ToyOpened(Event, frozen=True, kw_only=True):
    """A worker took the toy up. Opens a segment, and a run where it has none."""

    TYPE, KIND, STATE = "toy.opened.v1", EventKind.INTENT, frozenset({"worker", "key"})
    segment: int
    worker: str
    asks: bool = False
    key: str | None = None


class ToyStarted(Event, frozen=True, kw_only=True):
    """It is about to count in the world."""

    TYPE, KIND = "toy.started.v1", EventKind.INTENT


class ToyCounted(Event, frozen=True, kw_only=True):
    """It counted, or the world refused."""

    TYPE, KIND = "toy.counted.v1", EventKind.WORLD
    refused: bool


class ToyForked(Event, frozen=True, kw_only=True):
    """A toy that goes on from another one's past."""

    TYPE, KIND, STATE = "toy.forked.v1", EventKind.INTENT, frozenset({"source", "digest"})
    source: str
    version: int
    digest: str


@dataclass(frozen=True)
class Begin:
    """Take it up: in a new run, or in the one that is open."""

    worker: str
    asks: bool = False
    key: str | None = None


@dataclass(frozen=True)
class Approve:
    """Say yes to the question."""

    by: str


@dataclass(frozen=True)
class Fork:
    """Open another toy that goes on from here."""

    digest: str


@dataclass(frozen=True)
class Count:
    """Count in the world."""

    number: int


ToyEvent = (
    SessionStarted | ToyOpened | ToyStarted | ToyCounted | ToyForked
    | WaitStarted | WaitEnded | PauseRequested | PauseLifted | StopRequested | ExecutionPaused | ExecutionFinished
)  # fmt: skip
ToyCommand = Begin | Approve | Fork | OwnersCommand
ToyEffect = ToyEvent | Count | Wait


@dataclass
class Toy:
    """Where a toy stands: it has `counted` so far, and is `counting` the next number."""

    name: str
    version: int = 0
    as_of: int = 0
    segment: int = 0
    is_open: bool = False
    counted: int = 0
    counting: bool = False
    refused: bool = False
    asks: bool = False
    wait: Wait | None = None
    asked: Pause | Stop | None = None
    paused_by: str | None = None
    unpaused_at: int | None = None
    key: str | None = None
    keys: Mapping[str, int | None] = field(default_factory=dict[str, int | None])

    def at(self, now: int) -> "Toy":
        """Return the same toy looked at at another instant."""
        return replace(self, as_of=now)


def evolve(toy: Toy, record: Recorded[ToyEvent]) -> Toy:
    """Return the toy after one more event."""
    toy = replace(toy, version=record.version, as_of=record.at)
    match record.event:
        case ToyOpened(segment=segment, asks=asks, key=key) if not toy.is_open:
            keys = toy.keys if key is None else {**toy.keys, key: None}
            return replace(toy, segment=segment, is_open=True, counted=0, asks=asks, asked=None, key=key, keys=keys)
        case ToyOpened(segment=segment):
            wait = toy.wait if toy.wait is not None and toy.wait.answered_at is None else None
            asked = toy.asked if isinstance(toy.asked, Stop) else None
            return replace(
                toy, segment=segment, counting=False, paused_by=None, unpaused_at=None, wait=wait, asked=asked
            )
        case ToyStarted():
            return replace(toy, counting=True)
        case ToyCounted(refused=refused):
            return replace(toy, counting=False, refused=refused, counted=toy.counted + (not refused))
        case WaitStarted(kind=kind, until=until):
            wait = Wait(id="next", kind=kind, since=record.at, asked_at_version=record.version, due_at=until)
            return replace(toy, refused=False, wait=wait)
        case WaitEnded(by=str()) if toy.wait is not None:
            return replace(toy, asks=False, wait=structs.replace(toy.wait, answered_at=record.at))
        case WaitEnded():
            return replace(toy, wait=None)
        case StopRequested(by=by, reason=reason):
            return replace(toy, asked=Stop(by=by, reason=reason))
        case PauseRequested(by=by, reason=reason):
            return replace(toy, asked=Pause(by=by, reason=reason))
        case PauseLifted():
            return replace(toy, asked=None, unpaused_at=record.at if toy.paused_by is not None else None)
        case ExecutionPaused(by=by):
            return replace(toy, counting=False, paused_by=by, asked=None)
        case ToyForked():
            return replace(toy, key=None, keys={}, asked=None)
        case ExecutionFinished():
            keys = toy.keys if toy.key is None else {**toy.keys, toy.key: record.version}
            return replace(toy, is_open=False, wait=None, keys=keys)
        case SessionStarted():
            return toy


def evolve_all(toy: Toy, records: Iterable[Recorded[ToyEvent]]) -> Toy:
    """Return the toy after these events."""
    for record in records:
        toy = evolve(toy, record)
    return toy


def decide(toy: Toy, command: ToyCommand) -> tuple[ToyEvent, ...]:
    """Return what a command brings about."""
    match command:
        case Begin(key=str(key)) if key in toy.keys:
            return ()
        case Begin(worker=worker, asks=asks, key=key):
            opened = ToyOpened(segment=toy.segment + 1, worker=worker, asks=asks, key=key)
            return (opened,) if toy.version else (SessionStarted(name="toy"), opened)
        case Approve(by=by) if toy.wait is not None and toy.wait.answered_at is None:
            return (WaitEnded(reason="approved", by=by),)
        case Fork(digest=digest) if not toy.is_open:
            return (ToyForked(source=toy.name, version=toy.version, digest=digest),)
        case Leave() if toy.is_open and toy.paused_by is None:
            by = toy.asked.by if isinstance(toy.asked, Pause) else CALLER
            return (ExecutionPaused(by=by, reason="cancelled", step_seconds=0.0),)
        case Pause(by=by, reason=reason) if toy.is_open:
            is_paused = toy.paused_by is not None and toy.unpaused_at is None
            held = toy.paused_by if is_paused else toy.asked and toy.asked.by
            if isinstance(toy.asked, Stop) or (held is not None and (held != CALLER or by == CALLER)):
                return ()
            paused = (ExecutionPaused(by=by, reason=reason, step_seconds=0.0),) if is_paused else ()
            return (PauseRequested(by=by, reason=reason), *paused)
        case Unpause(by=by, reason=reason) if toy.paused_by or isinstance(toy.asked, Pause):
            return () if toy.unpaused_at is not None else (PauseLifted(by=by, reason=reason),)
        case Stop(by=by, reason=reason) if toy.is_open:
            return () if isinstance(toy.asked, Stop) else (StopRequested(by=by, reason=reason),)
        case _:
            raise CommandRejected(type(command).__name__.lower(), toy.name, "it cannot take that now")


def next_effects(toy: Toy, now: int) -> tuple[ToyEffect, ...]:
    """Return what is to be done next."""
    if not toy.is_open or toy.paused_by is not None:
        return ()
    if toy.counting and not isinstance(toy.asked, Stop):
        return (Count(toy.counted + 1),)
    if isinstance(toy.asked, Stop) or toy.counted == LAST:
        why = StopReason.COMPLETED if toy.counted == LAST else StopReason.USER_REQUESTED
        return (ExecutionFinished(status=ExecutionStatus.COMPLETED, stop_reason=why, resolved_by="Toy"),)
    if toy.asked is not None:
        return (ExecutionPaused(by=toy.asked.by, reason=toy.asked.reason, step_seconds=0.0),)
    if toy.wait is not None:
        is_over = toy.wait.due_at is not None and toy.wait.due_at <= now
        return (WaitEnded(reason="due") if is_over else toy.wait,)
    if toy.refused:
        return (WaitStarted(kind="retry", until=now + HOUR * 1_000_000),)
    if toy.asks and toy.counted + 1 == ASKS_BEFORE:
        return (WaitStarted(kind="approval"),)
    return (ToyStarted(),)


def standing(toy: Toy) -> Standing:
    """Say where the toy stands."""
    waits = () if toy.wait is None else (toy.wait,)
    if not toy.is_open:
        return Standing(state=StandingState.DONE if toy.version else StandingState.ABSENT)
    if toy.unpaused_at is not None:
        return Standing(state=StandingState.PENDING, due_at=toy.unpaused_at, waits=waits)
    if toy.paused_by == CALLER:
        return Standing(state=StandingState.PAUSED, due_at=toy.as_of, waits=waits)
    if toy.paused_by is not None:
        return Standing(state=StandingState.PAUSED, waits=waits, paused_by_person=True)
    if toy.wait is None:
        return Standing(state=StandingState.WORKING)
    return Standing(state=StandingState.RESTING, due_at=toy.wait.answered_at or toy.wait.due_at, waits=waits)


def summary(toy: Toy) -> RunSummary:
    """Return the row of the toy in a list."""
    stands = standing(toy)
    return RunSummary(
        kind="toy",
        session_id=toy.name,
        name="toy",
        status=STATUSES[stands.state],
        standing=stands.state,
        due_at=stands.due_at,
        waits=stands.waits,
        paused_by=toy.paused_by,
        executions=toy.segment,
        updated_at=toy.as_of,
        version=toy.version,
    )


def _asked(toy: Toy) -> Pause | Stop | None:
    return toy.asked


def _stop_grace(toy: Toy) -> float | None:
    return 0.0 if isinstance(toy.asked, Stop) else None


def _reopen(toy: Toy, worker: str, took_over: bool) -> ToyCommand | None:
    return Begin(worker) if toy.is_open else None


def _version_of_key(toy: Toy, key: str) -> int | None:
    return toy.keys.get(key)


def _began_again_and_ended(toy: Toy) -> tuple[int | None, int | None]:
    return None, None


def _children(toy: Toy) -> Mapping[str, None]:
    return {}


def _segment(toy: Toy) -> int:
    return toy.segment


def _opens_segment(event: ToyEvent) -> bool:
    return isinstance(event, ToyOpened)


def _forked_from(event: ToyEvent) -> StreamVersion | None:
    return StreamVersion(f"toy:{event.source}", event.version, event.digest) if isinstance(event, ToyForked) else None


TOY: Machine[Toy, ToyCommand, ToyEvent, ToyEffect] = Machine(
    stream_prefix="toy:",
    initial=Toy,
    evolve_all=evolve_all,
    extend=evolve_all,
    decide=decide,
    next_effects=next_effects,
    control=Control(
        standing=standing,
        summary=summary,
        asked=_asked,
        stop_grace=_stop_grace,
        reopen=_reopen,
        version_of_key=_version_of_key,
        children=_children,
        began_again_and_ended=_began_again_and_ended,
    ),
    segment=_segment,
    opens_segment=_opens_segment,
    forked_from=_forked_from,
)


class ToyPerformer:
    """Counts in the world; without one it can only close what is open."""

    def __init__(
        self, segment: Segment[Toy, ToyEvent], count: Callable[[int], Coroutine[Any, Any, None]] | None
    ) -> None:
        self._journal, self._flight, self._count = segment.journal, segment.flight, count

    def at_work(self) -> AbstractAsyncContextManager[None]:
        """Hold nothing meanwhile."""
        return nullcontext()

    def is_for_somebody_else(self, effect: ToyEffect, /) -> bool:
        """Tell whether it has to be waited for, or needs a world."""
        return isinstance(effect, Wait) or (isinstance(effect, Count) and self._count is None)

    async def perform(self, effect: ToyEffect, /) -> None:
        """Do it."""
        if isinstance(effect, Count) and self._count is not None:
            if await self._journal.flush():
                self._flight.begin(effect.number, self._count(effect.number), self._ended)
                await self._flight.land()
        elif isinstance(effect, Event):
            self._journal.record(effect)

    def _ended(self, outcome: Cut | Deaf | Exception | None) -> None:
        if not isinstance(outcome, Cut):
            self._journal.record(ToyCounted(refused=outcome is not None))
