"""The stopwatches of runs, steps and tasks: they count time, and stand in pauses and waits."""

from msgspec import Struct


class Stopwatch(Struct, frozen=True):
    """A count of `counted_us` microseconds, and of those since the instant `since` while it runs; None while it stands.

    Instants are in microseconds of UTC. It never changes: each method returns another one, or the same.
    """

    counted_us: int = 0
    since: int | None = None

    def us(self, now: int) -> int:
        """Return the microseconds that it shows at `now`."""
        return self.counted_us + self.running_us(now)

    def running_us(self, now: int) -> int:
        """Return the part of that which is not counted yet: 0 while it stands."""
        return max(0, now - self.since) if self.since is not None else 0

    def reaches(self, us: int) -> int | None:
        """Return the instant at which it shows so many microseconds; None while it stands."""
        return self.since + us - self.counted_us if self.since is not None else None

    def started(self, at: int) -> "Stopwatch":
        """Return it as it runs from `at` on, if it does not run yet."""
        return Stopwatch(self.counted_us, at) if self.since is None else self

    def stopped(self, at: int) -> "Stopwatch":
        """Return it as it stands, with the time up to `at` counted."""
        return Stopwatch(self.us(at)) if self.since is not None else self

    def put_forward(self, to: int) -> "Stopwatch":
        """Return it as it shows now what it would show at `to`, until that is over.

        One that stands, or is past that instant, stays as it is.
        """
        return Stopwatch(self.us(to), to) if self.since is not None and self.since < to else self
