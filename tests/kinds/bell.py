"""A small machine that is no agent: a bell that somebody has to press. Streams `bell:…`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionPaused,
    SessionStarted,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.commands import Leave, OwnersCommand, Pause, Stop, Unpause
from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import Commit, Recorded
from steptrail.domain.kernel.standing import Standing, StandingState, Wait
from steptrail.domain.live import Writing
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage
from steptrail.projections.kinds import Bill, KindProjections
from steptrail.projections.lifecycle import RunEvent
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind
from steptrail.runtime.kernel.live_updates import writes_nothing
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.segment import Performer, Segment
from steptrail.testing.store_contract import commit_of


class BellHung(Event, frozen=True, kw_only=True):
    """A worker hung the bell up. Opens a segment."""

    TYPE = "bell.hung.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"worker"})
    worker: str


class BellRang(Event, frozen=True, kw_only=True):
    """It rang, and that cost something."""

    TYPE = "bell.rang.v1"
    KIND = EventKind.FACT
    tokens: int


_ABSENT = Standing(state=StandingState.ABSENT)

BellEvent = SessionStarted | BellHung | BellRang | WaitStarted | WaitEnded | ExecutionPaused | ExecutionFinished


@dataclass(slots=True, kw_only=True)
class Bell:
    """Where a bell stands."""

    name: str
    title: str = ""
    parent: ParentRef | None = None
    started_at: int = 0
    version: int = 0
    as_of: int = 0
    standing: Standing = _ABSENT
    segment: int = 0

    def at(self, now: int) -> "Bell":
        """Return the same bell looked at at another instant."""
        return replace(self, as_of=now)


def _evolve(bell: Bell, record: Recorded[BellEvent]) -> Bell:
    bell = replace(bell, version=record.version, as_of=record.at)
    match record.event:
        case SessionStarted(name=title, parent=parent):
            pending = Standing(state=StandingState.PENDING, due_at=record.at)
            return replace(bell, title=title, parent=parent, started_at=record.at, standing=pending)
        case BellHung():
            return replace(bell, segment=bell.segment + 1, standing=Standing(state=StandingState.WORKING))
        case WaitStarted(kind=kind, until=until):
            wait = Wait(id="press", kind=kind, since=record.at, asked_at_version=record.version, due_at=until)
            return replace(bell, standing=Standing(state=StandingState.RESTING, due_at=until, waits=(wait,)))
        case WaitEnded():
            return replace(bell, standing=Standing(state=StandingState.RESTING, due_at=record.at))
        case ExecutionPaused():
            return replace(bell, standing=Standing(state=StandingState.PAUSED, paused_by_person=True))
        case ExecutionFinished():
            return replace(bell, standing=Standing(state=StandingState.DONE))
        case BellRang():
            return bell


def _evolve_all(bell: Bell, records: Iterable[Recorded[BellEvent]]) -> Bell:
    for record in records:
        bell = _evolve(bell, record)
    return bell


def _standing(bell: Bell) -> Standing:
    return bell.standing


def _summary(bell: Bell) -> RunSummary:
    stands = bell.standing
    return RunSummary(
        kind="bell",
        session_id=bell.name,
        name=bell.title,
        status=STATUSES[stands.state],
        standing=stands.state,
        due_at=stands.due_at,
        waits=stands.waits,
        parent=bell.parent,
        started_at=bell.started_at,
        updated_at=bell.as_of,
        version=bell.version,
    )


STATUSES = {
    StandingState.ABSENT: ExecutionStatus.PENDING,
    StandingState.PENDING: ExecutionStatus.PENDING,
    StandingState.WORKING: ExecutionStatus.IN_PROGRESS,
    StandingState.RESTING: ExecutionStatus.WAITING,
    StandingState.PAUSED: ExecutionStatus.PAUSED,
    StandingState.DONE: ExecutionStatus.COMPLETED,
}


async def put(store: EventStore, stream: str, *events: BellEvent) -> None:
    """Append events to a bell, as a journal would: with its row in the index."""
    stored = await store.read(stream)
    commit = commit_of(f"c{stored.head.version}", *events)
    added = [Recorded(stored.head.version + n, at, event) for n, (at, event) in enumerate(commit.events, 1)]
    bell = _evolve_all(Bell(name=id_of(stream)), [*cast(Sequence[Recorded[BellEvent]], (*stored.records, *added))])
    await store.append(stream, await store.head(stream), Commit(commit.head, commit.events, _summary(bell)))


def _new(name: str) -> Bell:
    return Bell(name=name)


def _decide(bell: Bell, command: OwnersCommand) -> tuple[BellEvent, ...]:
    match command:
        case Pause(by=by):
            return (ExecutionPaused(by=by, step_seconds=0.0),)
        case Stop(by=by):
            return (
                ExecutionFinished(
                    status=ExecutionStatus.COMPLETED, stop_reason=StopReason.USER_REQUESTED, resolved_by=by
                ),
            )
        case Leave() | Unpause():
            return ()


def _next_effects(bell: Bell, now: int) -> tuple[str, ...]:
    return ()


def _none(bell: Bell) -> None:
    return None


def _reopen(bell: Bell, worker: str, took_over: bool) -> OwnersCommand | None:
    return None


def _version_of_key(bell: Bell, key: str) -> int | None:
    return None


def _began_again_and_ended(bell: Bell) -> tuple[int | None, int | None]:
    return None, None


def _children(bell: Bell) -> Mapping[str, None]:
    return {}


def _segment(bell: Bell) -> int:
    return bell.segment


def _opens_segment(event: BellEvent) -> bool:
    return isinstance(event, BellHung)


BELL: Machine[Bell, OwnersCommand, BellEvent, str] = Machine(
    stream_prefix="bell:",
    initial=_new,
    evolve_all=_evolve_all,
    extend=_evolve_all,
    decide=_decide,
    next_effects=_next_effects,
    control=Control(
        standing=_standing,
        summary=_summary,
        asked=_none,
        reopen=_reopen,
        version_of_key=_version_of_key,
        children=_children,
        began_again_and_ended=_began_again_and_ended,
    ),
    segment=_segment,
    opens_segment=_opens_segment,
)


def _in_flight(bell: Bell) -> Sequence[str]:
    return ("it rings",) if bell.standing.state is StandingState.WORKING else ()


class _Alone:
    """Performs nothing: a bell has no effects."""

    def at_work(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def is_for_somebody_else(self, effect: str, /) -> bool:
        return True

    async def perform(self, effect: str, /) -> None:
        raise AssertionError(effect)


def _alone(segment: Segment[Bell, BellEvent]) -> Performer[str]:
    return _Alone()


def _settles(event: Event) -> None:
    del event


def _writing(bell: Bell) -> Writing:
    del bell
    return writes_nothing


def _control(environment: Environment, stream: str) -> StreamControl[Bell, Stop, BellEvent, str]:
    return StreamControl[Bell, Stop, BellEvent, str](BELL, environment, stream, alone=_alone)


KIND = Kind(machine=BELL, control=_control, in_flight=_in_flight, writing=_writing, settles=_settles)


@dataclass(frozen=True, kw_only=True)
class BellExplanation:
    """What `why` says of a bell, or of another small machine."""

    verdict: str
    waits_for: str | None
    events: Mapping[str, int]
    is_owned: bool | None
    is_crashed: bool
    damage: str | None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {"verdict": self.verdict, "waitsFor": self.waits_for, "events": dict(self.events)}


class StandingExplainer:
    """Explains a stream of a small machine by where it stands. The newest execution is the only one."""

    def __init__(self, machine: Machine[Any, Any, Any, Any], name: str, execution: str | int | None) -> None:
        del execution
        self._machine, self._name, self._state, self._events = machine, name, machine.initial(name), dict[str, int]()

    @property
    def version(self) -> int:
        version: int = self._state.version
        return version

    def add(self, records: Sequence[Recorded[Any]], /) -> None:
        self._state = self._machine.evolve_all(self._state, records)
        self._events |= {record.event.TYPE: record.version for record in records}

    def explanation(self, *, now: int, owned: bool | None = None, damage: str | None = None) -> BellExplanation:
        del now
        standing = self._machine.control.standing(self._state)
        return BellExplanation(
            verdict=f"{self._machine.stream_prefix[:-1]} {self._name}: {standing.state.value}",
            waits_for=standing.waits[0].kind if standing.waits else None,
            events=self._events,
            is_owned=owned,
            is_crashed=owned is False and standing.state is StandingState.WORKING,
            damage=damage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BellTold(RunEvent):
    """What a listener hears of a bell: the type of each of its own events."""

    type: str


class _BellLifecycle:
    def __init__(self, bell: Bell) -> None:
        self._bell = bell

    @property
    def version(self) -> int:
        return self._bell.version

    def copied(self) -> "_BellLifecycle":
        return _BellLifecycle(self._bell)

    def apply(self, record: Recorded[Any], /, *, position: int | None = None) -> tuple[RunEvent, ...]:
        self._bell = _evolve(self._bell, record)
        if not record.event.TYPE.startswith("bell."):
            return ()
        told = BellTold(
            session_id=self._bell.name,
            parent_session_id=None,
            execution_id="",
            version=record.version,
            at=record.at,
            session_status=ExecutionStatus.IN_PROGRESS,
            position=position,
            type=record.event.TYPE,
        )
        return (told,)


def _billed(event: Event) -> Usage | None:
    return Usage(input=event.tokens) if isinstance(event, BellRang) else None


PROJECTIONS_OF_BELLS = KindProjections(
    explain=partial(StandingExplainer, BELL),
    bill=Bill(types=(BellRang.TYPE,), begin=lambda: _billed),
    lifecycle=_BellLifecycle,
)
