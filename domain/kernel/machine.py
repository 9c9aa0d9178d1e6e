"""The description of a machine: its state, how events change it, which commands it takes, and what it does next.

The journal, the loop and the test kit know a machine only by this. All its functions are pure: times, ids and outcomes
arrive as data.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from msgspec import Struct

from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded, StreamVersion


class FoldedState(Protocol):
    """A state as the kernel needs it: it has a version, and it can be seen as of another instant."""

    @property
    def version(self) -> int:
        """The number of events that the state was folded from."""
        ...

    as_of: int
    """The instant as of which the state is seen, in microseconds of UTC."""

    def at(self, now: int) -> Self:
        """Return the same state as of the instant `now`."""
        ...


class CallInFlight(Struct, frozen=True):
    """A call to the outside world that this process is making: its effect id, and the number of the attempt.

    What a call that `runs_a_stream` is billed is the whole bill of that stream so far.
    """

    effect_id: str
    attempt: int
    runs_a_stream: bool = False


S = TypeVar("S", bound=FoldedState)
C = TypeVar("C")
E = TypeVar("E", bound=Event)
F = TypeVar("F")


class SnapshotCodec(NamedTuple, Generic[S]):
    """Encodes a committed state as lines without line breaks in them, and decodes it again.

    `format` names the version of the fold and of the encoding. It changes whenever events fold to another state than
    before, or a state is encoded differently. `load` raises `ValueError` for lines that hold no such state. It may go
    through them again later, when somebody looks at what it has passed over.
    """

    format: str
    dump: Callable[[S], Sequence[bytes]]
    load: Callable[[Iterable[bytes]], S]


class Machine(NamedTuple, Generic[S, C, E, F]):
    """A machine with states `S`, commands `C`, events `E` and effects `F`.

    `stream_prefix` is the beginning of the id of each of its streams. `initial` returns the state of a stream without
    events, from the id of the stream. `evolve_all` folds records into a state and accepts any event in any state.
    `extend` does the same faster, by changing the given state in place; nobody may use that state afterwards. `decide`
    turns a command into events, or raises `CommandRejected`. `next_effects` returns the effects that are due at an
    instant in microseconds of UTC; none when only a command can bring the stream on. `control` answers the questions
    of the kernel about a state.

    `segment` returns the number of the segment that a state is in. `opens_segment` tells whether an event opens one.

    The other fields are optional. `forked_from` returns the place at which a fork leaves the stream that it comes from,
    given the event that begins the fork. `settle_late` returns the event that a worker may still append for the end of
    a call after it has lost the stream. `restated` returns a fact as it is to be appended to a state that others have
    changed: what the fact concludes is concluded anew. `snapshots` encodes states, so that a long stream need not be
    folded from its beginning.
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
    forked_from: Callable[[E], StreamVersion | None] = lambda event: None
    settle_late: Callable[[E, CallInFlight, int], E | None] = lambda event, call, segment: None
    restated: Callable[[S, E], E] = lambda state, event: event
    snapshots: SnapshotCodec[S] | None = None
