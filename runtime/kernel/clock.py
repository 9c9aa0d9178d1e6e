"""Time, where it enters: as instants that are data from then on."""

import time
from typing import Protocol

__all__ = ["Clock", "SegmentClock", "SystemClock"]


class Clock(Protocol):
    """The two clocks of a machine."""

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC. It may be set back."""
        ...

    def monotonic(self) -> int:
        """Return microseconds of a clock that never runs backwards and starts anywhere."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return microseconds since some point in the past."""
        return time.monotonic_ns() // 1000


class SegmentClock:
    """Instants of one segment: the time of day at its start, carried on by the monotonic clock.

    So differences inside a segment are durations, whatever happens to the time of day meanwhile. `not_before` is the
    newest instant of the log: a clock that was set back between two segments does not make time run backwards.
    """

    def __init__(self, clock: Clock, *, not_before: int = 0) -> None:
        self._monotonic = clock.monotonic
        self._ahead = max(clock.utc(), not_before) - clock.monotonic()

    def now(self) -> int:
        """Return the instant in microseconds of UTC."""
        return self._ahead + self._monotonic()
