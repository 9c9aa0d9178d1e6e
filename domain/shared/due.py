"""Why a stream can be gone on with."""

from enum import StrEnum

from steptrail.domain.base import Value


class DueCause(StrEnum):
    """The cause for which an owner can go on with a stream."""

    CRASHED = "crashed"
    """Its owner died."""
    TIMER = "timer"
    """The time of a wait has come: of a retry, or of a question that nobody answered."""
    ANSWERED = "answered"
    """Somebody answered: all that it waited for, or, of a workflow, something that it can go on with."""
    STARTED = "started"
    """It was started or retried for a worker, or its pause was lifted, and no worker has begun with it."""
    CANCELLED = "cancelled"
    """It was paused because its caller was cancelled."""
    SAID = "said"
    """Something was said to it while it was at rest."""
    CHILD = "child"
    """A stream that it waits for does not rest any more."""


class Due(Value, frozen=True, kw_only=True):
    """Why a stream can be gone on with, and since when, in microseconds of UTC; None when that is not known.

    `stream` is the one that it waited for, if it did.
    """

    cause: DueCause
    since: int | None = None
    stream: str | None = None
