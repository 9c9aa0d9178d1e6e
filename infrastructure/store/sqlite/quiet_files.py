"""Tells from the files of a database whether anybody may have committed, for a small part of what a question costs.

A commit writes to the log beside the file, or to the file where there is no log, and what is written has a new time or
size. A file system may give two writes one time, and a commit counts only when it is on the disk, which is later than
its last write. So the files are quiet once they have not changed for a while, and even then they are not relied upon
for longer than that.
"""

import time
from collections.abc import Callable
from pathlib import Path

from steptrail.infrastructure.store.sqlite.errors import status_of

_WHILE_SECONDS = 1.0
"""Longer than a file system rounds the time of a write, almost everywhere."""

_Mark = tuple[int, int, int] | None


class QuietFiles:
    """The file of a store and its log. `clock` returns seconds and never goes back."""

    def __init__(self, database: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        found = database.resolve()
        self._file, self._log = str(found), f"{found}-wal"
        self._clock = clock
        self._mark: _Mark = None
        self._changed = self._asked = clock()

    def __call__(self) -> bool:
        """Return whether nobody can have committed since the last answer of False, after which the caller looks."""
        now, mark = self._clock(), _mark(self._log) or _mark(self._file)
        if mark is None or mark != self._mark:
            self._mark, self._changed = mark, now
        if now - self._changed > _WHILE_SECONDS > now - self._asked:
            return True
        self._asked = now
        return False


def _mark(name: str) -> _Mark:
    status = status_of(name)
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None
