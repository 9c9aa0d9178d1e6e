"""Logs what code of the user raised, cut and without credentials, and ever more seldom what comes again."""

import logging
from traceback import format_exception

from steptrail.domain.errors import SteptrailError
from steptrail.domain.exception_words import kept_text, words_of

_MOST = 100_000
"""Characters of a traceback that are written: a message may hold all that a server has answered."""


def log_raised(
    log: logging.Logger,
    raised: BaseException | None,
    said: str,
    *about: object,
    level: int = logging.WARNING,
    stacklevel: int = 2,
) -> None:
    """Log what is said about an exception, and its traceback, as from the place of the call."""
    if not log.isEnabledFor(level):
        return
    told = "".join(format_exception(raised)).strip()
    written = kept_text(told, _MOST)
    if written == told:
        log.log(level, said, *about, exc_info=raised, stacklevel=stacklevel)
    else:
        # It is too long, or holds what looks like a credential, or half a surrogate pair, which no handler can write.
        log.log(level, f"{said}\n%s", *about, written, stacklevel=stacklevel)


def log_first(
    log: logging.Logger, raised: BaseException, who: str, told: object, session: str, failed_on: set[type[object]]
) -> None:
    """Log that `who` failed on what it was told of a session: once for each type of that, which `failed_on` keeps."""
    if type(told) not in failed_on:
        failed_on.add(type(told))
        said = "%s failed on %s of session %s; further failures on that are not logged"
        log_raised(log, raised, said, who, type(told).__name__, session, stacklevel=3)


def said_by(error: BaseException) -> str:
    """Return what an error of ours says, and of any other its class too: it may say nothing, as for lack of memory."""
    return str(error) if isinstance(error, SteptrailError) else f"{type(error).__name__}: {words_of(error)}"


_LONGEST = 1024


class Seldom:
    """Logs the same warning the 1st, 2nd, 4th, 8th time and so on, and each 1024th; `over` has it begin anew.

    A store that is away for a night fills no disk.
    """

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
