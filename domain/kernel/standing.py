"""Where a stream stands, in terms that fit every kind of machine.

Each machine derives a standing from a state. Lists, workers and owners use the standing only, and know no phases.
"""

from enum import StrEnum

from msgspec import Struct, structs

from steptrail.domain.base import Value


class StandingState(StrEnum):
    """The state of a stream, as a process that wants to own it would find it."""

    ABSENT = "absent"
    """No event yet."""
    PENDING = "pending"
    """The stream was asked for something, and no owner has begun with it."""
    WORKING = "working"
    """A run is open, and its owner is at work. If nobody holds the lease, that owner has crashed."""
    RESTING = "resting"
    """A run is open and waits without an owner: for a person, for another stream, or for a time that is far off."""
    PAUSED = "paused"
    """A run is open, and its segment was closed on request."""
    DONE = "done"
    """The last run has ended."""


OPEN = frozenset({StandingState.PENDING, StandingState.WORKING, StandingState.RESTING, StandingState.PAUSED})
"""The states in which a run has begun and not ended."""


class Wait(Value, frozen=True, kw_only=True):
    """One thing that a stream waits for. Instants are microseconds of UTC.

    `id` is unique among the open waits of the stream. `kind` is the machine's name for this kind of wait. The wait ends
    by itself at `due_at`; None when it does not. It was answered at `answered_at`; None when it was not.
    `asked_at_version` is the version of the event that began it. `on` is the id of the stream that is waited for.
    """

    id: str
    kind: str
    since: int
    asked_at_version: int
    due_at: int | None = None
    answered_at: int | None = None
    on: str | None = None


def answered(waits: tuple[Wait, ...], at: int) -> tuple[Wait, ...]:
    """Return the waits, those that are open marked as answered at `at` (microseconds of UTC)."""
    return tuple(structs.replace(wait, answered_at=at) if wait.answered_at is None else wait for wait in waits)


class Standing(Struct, frozen=True, kw_only=True):
    """Where a stream stands. Instants are microseconds of UTC.

    `status` is the machine's own word for it, and `runs` the number of runs that have begun. `due_at` is the instant
    from which an owner can go on without help; None when a command or another stream has to come first.
    `paused_by_person` is False for a pause that came about because the owner's caller was cancelled. `asked_again` says
    that the stream was asked for something new while it was paused. `tenant` is the one that the metadata of the stream
    names, as the read models have it; None for none.

    The index of a store is written when the standing changes, so whatever lists must not be late with stands here.
    """

    state: StandingState
    status: str = ""
    runs: int = 0
    due_at: int | None = None
    waits: tuple[Wait, ...] = ()
    paused_by_person: bool = False
    asked_again: bool = False
    tenant: str | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether a run has begun and not ended."""
        return self.state in OPEN

    @property
    def is_at_rest(self) -> bool:
        """Tell whether no owner is expected: the stream is absent, has ended, is paused, or rests."""
        return self.state not in {StandingState.PENDING, StandingState.WORKING}

    def is_due(self, now: int) -> bool:
        """Tell whether a new owner could go on at `now` (microseconds of UTC), by the events of this stream alone.

        Those events do not show that an owner has crashed, nor that another stream that is waited for has moved on.
        """
        return self.asked_again or (self.due_at is not None and self.due_at <= now)
