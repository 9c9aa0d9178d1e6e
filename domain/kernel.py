"""What every machine of Steptrail is: a state, how events change it, who may ask for what, and what is due next.

The runner, the store and the test kit know a machine by these four functions. All are pure: times, ids and outcomes
arrive as data.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from steptrail.domain.event import Event
from steptrail.domain.record import Recorded

__all__ = ["Machine"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=Event)
F = TypeVar("F")


class Machine(NamedTuple, Generic[S, C, E, F]):
    """A machine over states `S`, commands `C`, events `E` and effects `F`.

    `initial` makes the state of a stream without events from its id; `evolve_all` folds records into it and accepts
    any event in any state; `decide` turns a command into events or raises `CommandRejected`; `next_effects` says what
    may be done at an instant, in microseconds of UTC, and nothing when only a command can bring the stream on.
    """

    initial: Callable[[str], S]
    evolve_all: Callable[[S, Iterable[Recorded[E]]], S]
    decide: Callable[[S, C], tuple[E, ...]]
    next_effects: Callable[[S, int], tuple[F, ...]]
