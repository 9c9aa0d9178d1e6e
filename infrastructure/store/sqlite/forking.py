"""No thread of ours is inside SQLite while its process forks.

SQLite has locks that are one for a process, such as that of its memory. One that another thread holds at a fork stays
held in the child for ever: the child hangs as soon as it uses SQLite, also with a file of its own. So a fork waits
until all threads are out, and lets none in meanwhile. It does not wait long, because a disk may be slow.
"""

import os
import threading

_PATIENCE_SECONDS = 1.0


class InsideSqlite:
    """A context manager for what calls SQLite. It may be nested, and threads may share it."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self.begin_anew()

    def __enter__(self) -> None:
        """Go in, after a fork that is under way."""
        depth = getattr(self._of_thread, "depth", 0)
        if not depth:
            with self._lock:  # and not the condition, whose lock it is: that would be two more calls
                while self._is_forking:
                    self._changed.wait()
                self._threads += 1
        self._of_thread.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        """Go out."""
        depth = self._of_thread.depth = self._of_thread.depth - 1
        if not depth:
            with self._lock:
                self._threads -= 1
                if self._is_forking:
                    self._changed.notify_all()

    def begin_fork(self) -> None:
        """Let nobody in, and wait until all others are out, for a second at most."""
        with self._lock:
            self._changed.wait_for(lambda: not self._is_forking)
            self._is_forking = True
            self._changed.wait_for(lambda: self._threads == self._own(), _PATIENCE_SECONDS)

    def end_fork(self) -> None:
        """Let threads in again, in the process that has forked."""
        with self._lock:
            self._is_forking = False
            self._changed.notify_all()

    def begin_anew(self) -> None:
        """Know of no thread but this one: those of the process that has forked are not in its child."""
        # Its thread may take it again: a handler of a signal may fork, or ask a store, in the middle of the above.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads, self._is_forking = self._own(), False

    def _own(self) -> int:
        """Return 1 when this thread is inside, else 0."""
        return 1 if getattr(self._of_thread, "depth", 0) else 0


INSIDE = InsideSqlite()
"""The one of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=INSIDE.begin_fork, after_in_parent=INSIDE.end_fork, after_in_child=INSIDE.begin_anew)
