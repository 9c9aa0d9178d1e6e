"""What every machine of Steptrail is: a state, how events change it, who may ask for what, and what is due next.

The journal, the loop and the test kit know a machine by this alone. Everything here is pure: times, ids and outcomes
arrive as data.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded, StreamVersion

__all__ = ["CallInFlight", "FoldedState", "Machine", "SnapshotCodec"]


class FoldedState(Protocol):
    """What the kernel needs of a state: how many events it holds, and that it can be looked at at an instant."""

    @property
    def version(self) -> int:
        """The number of events it was folded from."""
        ...

    as_of: int
    """The instant it is looked at, in microseconds of UTC."""

    def at(self, now: int) -> Self:
        """Return the same state looked at at another instant."""
        ...


class CallInFlight(NamedTuple):
    """A call to the outside world that this process makes: its effect id, and which attempt it is."""

    effect_id: str
    attempt: int


S = TypeVar("S", bound=FoldedState)
C = TypeVar("C")
E = TypeVar("E", bound=Event)
F = TypeVar("F")


def _never_forked(event: Event) -> None:
    del event


def _nothing_late(event: Event, call: CallInFlight, segment: int) -> None:
    del event, call, segment


def _as_it_was(state: object, event: E) -> E:
    del state
    return event


class SnapshotCodec(NamedTuple, Generic[S]):
    """How a committed state is written down and read back.

    `format` names the fold and the form together: it changes whenever any events fold to something else than before, or
    are written otherwise. `load` raises `ValueError` for bytes that are not such a state.
    """

    format: str
    dump: Callable[[S], bytes]
    load: Callable[[bytes], S]


class Machine(NamedTuple, Generic[S, C, E, F]):
    """A machine over states `S`, commands `C`, events `E` and effects `F`.

    `stream_prefix` begins the id of each of its streams. `initial` makes the state of a stream without events from
    its id; `evolve_all` folds records into it and accepts any event in any state; `extend` does the same and uses up
    the state that it is given, which is quicker and only for who has it to himself; `decide` turns a command into
    events or raises `CommandRejected`; `next_effects` says what may be done at an instant, in microseconds of UTC, and
    nothing when only a command can bring the stream on. `control` says what it means to own one of its streams.

    `segment` is the stretch of the run that a state is in, and `opens_segment` tells an event that began one.

    A machine may do without the rest. `forked_from` tells of an event that begins a fork whose past comes before it.
    `settle_late` turns what a call did into the one event that a worker may still append when it has lost the stream.
    `restated` returns a fact as it is put on top of a state that others have changed: what was concluded in it is
    concluded anew. `snapshots` spares long streams their fold.
    """

    stream_prefix: str
    initial: Callable[[str], S]
    evolve_all: Callable[[S, Iterable[Recorded[E]]], S]
    extend: Callable[[S, Iterable[Recorded[E]]], S]
    decide: Callable[[S, C], tuple[E, ...]]
    next_effects: Callable[[S, int], tuple[F, ...]]
    control: Control[S, C]
    segment: Callable[[S], int]
    opens_segment: Callable[[E], bool]
    forked_from: Callable[[E], StreamVersion | None] = _never_forked
    settle_late: Callable[[E, CallInFlight, int], E | None] = _nothing_late
    restated: Callable[[S, E], E] = _as_it_was
    snapshots: SnapshotCodec[S] | None = None
