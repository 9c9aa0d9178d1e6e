"""The clocks from which the library reads the time. Everywhere else, instants arrive as data."""

import time
from collections.abc import Callable
from typing import Protocol

_SECOND = 10**6


class Clock(Protocol):
    """The two clocks of a computer."""

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC. It may be set back."""
        ...

    def monotonic(self) -> int:
        """Return microseconds of a clock that never runs backwards and starts anywhere."""
        ...


class SystemClock:
    """The clocks of this computer."""

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return microseconds since some point in the past."""
        return time.monotonic_ns() // 1000


class SegmentClock:
    """The clock of one segment: it starts at the time of day and goes on with the monotonic clock.

    So differences inside a segment are durations, also when the time of day is set meanwhile. `not_before` is the
    newest instant of the log: time does not run backwards when a clock was set back between two segments.
    """

    def __init__(self, clock: Clock, *, not_before: int = 0) -> None:
        self._utc, self._monotonic = clock.utc, clock.monotonic
        self._ahead = max(clock.utc(), not_before) - clock.monotonic()

    def now(self) -> int:
        """Return the instant in microseconds of UTC."""
        return self._ahead + self._monotonic()

    def behind(self) -> int:
        """Return how many microseconds it is behind the time of day; 0 for less than a second.

        It is behind in a machine that was suspended, and where the time of day was put forward.
        """
        behind = self._utc() - self.now()
        return behind if behind >= _SECOND else 0


class ClockBelow:
    """The clock of what a run has begun, which is never behind the clock of that run.

    Either of them may be behind the time of day, by which the other began. So the run waits for what waits below it,
    and does not find over by its own clock what is not over below. `above` is the clock of the run.
    """

    def __init__(self, clock: Clock, above: Callable[[], int]) -> None:
        self._clock, self._above = clock, above
        self.monotonic = clock.monotonic

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC, or that of the run above where it is later."""
        return max(self._clock.utc(), self._above())
