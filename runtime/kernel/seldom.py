"""A warning that comes again and again is told more and more seldom: a store that is away for a night fills no disk."""

import logging

_LONGEST = 1024


class Seldom:
    """Logs the same warning the 1st, 2nd, 4th, 8th time and so on, and each 1024th; `over` has it begin anew."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._last, self._times = log, "", 0

    def warn(self, said: str, *about: object) -> None:
        """Log a warning, unless it is the same as the last and was told often. From the 4th time on it is counted."""
        now = said % about
        self._times = self._times + 1 if now == self._last else 1
        self._last = now
        if self._times & (self._times - 1) and self._times % _LONGEST:
            return
        if self._times < 4:
            self._log.warning(said, *about)
        else:
            self._log.warning(f"{said} (said %d times, and told seldom)", *about, self._times)

    def over(self) -> None:
        """Note that what was warned of is over."""
        self._last, self._times = "", 0
