"""A clock for tests, in which three days go by in no time."""

from datetime import UTC, datetime, timedelta

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import from_datetime
from steptrail.runtime.kernel.clock import SystemClock


class ManualClock:
    """A clock that is put forward by hand: `Steptrail.open(url, clock=ManualClock())`.

    It begins at `at`, an aware `datetime`, and stands still until it is put forward; one that is `running` goes on like
    the real one in between. With one that stands still, a `run` or `resume` that waits for a retry waits until somebody
    puts it forward, which it notices within a second; with `RunOptions(longest_wait=0)`, or `Limits(longest_wait=0)`
    for an agent, it returns as `waiting` instead. Timeouts of calls go by the real clock.
    Raises `ConfigurationError` for an `at` without a time zone.
    """

    def __init__(self, at: datetime = datetime(2027, 1, 15, 8, tzinfo=UTC), *, running: bool = False) -> None:
        if not isinstance(at, datetime) or at.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a clock begins at a datetime with a time zone, not at {at!r}")
        self._now = from_datetime(at)
        self._since = SystemClock().monotonic() if running else None

    def utc(self) -> int:
        """Return the time of day in microseconds of UTC."""
        return self._now + (SystemClock().monotonic() - self._since if self._since is not None else 0)

    def monotonic(self) -> int:
        """Return the same: this clock is never set back."""
        return self.utc()

    def advance(self, by: float | timedelta) -> None:
        """Put the clock forward, by so many seconds or a `timedelta`. Raises `ValueError` for less than 0."""
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if span < timedelta(0):
            raise ValueError(f"a clock is not set back: {span}")
        self._now += span // timedelta(microseconds=1)

    def reach(self, instant: int) -> None:
        """Put the clock forward to an instant in microseconds of UTC, unless that is over already."""
        self._now += max(0, instant - self.utc())
