"""Where a stream stands, in the words that hold for every kind of machine.

A machine says it of a state. Lists, workers and owners go by this alone; they know no phases.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Standing", "StandingState", "Wait"]


class StandingState(StrEnum):
    """What an owner would find."""

    ABSENT = "absent"
    """No event yet."""
    PENDING = "pending"
    """Something was asked of it, and no owner has begun with that."""
    WORKING = "working"
    """A run is open, and its owner is at work. Without a live lease that owner has crashed."""
    RESTING = "resting"
    """A run is open and waits, with no owner: for a person, another stream, or a time that is far off."""
    PAUSED = "paused"
    """A run is open, and its segment was closed on request."""
    DONE = "done"
    """Its last run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One thing that a stream waits for. Instants are microseconds of UTC.

    `id` is unique in the stream among what is open. `kind` is the machine's word for it. It is over by itself at
    `due_at`, and was answered at `answered_at`; each is None when that is not so. `asked_at_version` is the version of
    the event that asks, and `on` the stream that is waited for.
    """

    id: str
    kind: str
    since: int
    asked_at_version: int
    due_at: int | None = None
    answered_at: int | None = None
    on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a stream stands. Instants are microseconds of UTC.

    `due_at` is the instant from which an owner can bring it on without anybody's help; None when only a command, or
    another stream, can do that. `paused_by_person` tells a pause that somebody asked for from one that came about
    because its owner left. `asked_again` says that something new was said to it while it was at rest.
    """

    state: StandingState
    due_at: int | None = None
    waits: tuple[Wait, ...] = ()
    paused_by_person: bool = False
    asked_again: bool = False

    @property
    def is_open(self) -> bool:
        """Tell whether a run has begun and not ended."""
        return self.state in _OPEN

    @property
    def is_at_rest(self) -> bool:
        """Tell whether no owner is expected at it: it is not there, has ended, is paused, or waits."""
        return self.state not in {StandingState.PENDING, StandingState.WORKING}

    def is_due(self, now: int) -> bool:
        """Tell whether a new owner could bring it on at `now`, as far as its own events tell.

        They do not tell of an owner that has crashed, nor of a stream that it waits for and that rests no more.
        """
        return self.asked_again or (self.due_at is not None and self.due_at <= now)


_OPEN = frozenset({StandingState.WORKING, StandingState.RESTING, StandingState.PAUSED})
