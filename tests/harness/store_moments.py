"""A moment before every look at a store and every write to it, for who wants to come between two of them.

An operation that looks twice at what it takes for one thing is right until somebody commits between the looks. So tests
put a commit there, and long runs a pause.
"""

import random
import time
from collections.abc import Callable
from typing import Any, cast

from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.recorder import Recorder

Moment = Callable[[str], None]
"""Called in the thread that is about to ask the database, with the name of the question."""


def with_moments(store: RecorderEventStore, moment: Moment) -> RecorderEventStore:
    """Have `moment` called before each question of the store to its database and its leases, and return the store."""
    store.recorder = cast(Recorder, _Interrupted(store.recorder, moment))
    vars(store)["_leases"] = _Interrupted(vars(store)["_leases"], moment)
    return store


def pausing(seed: int, *, longest: float, share: float = 0.3) -> Moment:
    """Return a moment that now and then, for a `share` of all calls, sleeps for up to `longest` seconds."""
    draw = random.Random(seed)  # noqa: S311 - chooses moments

    def moment(what: str) -> None:
        del what
        if draw.random() < share:
            time.sleep(draw.uniform(0.0, longest))

    return moment


class _Interrupted:
    """A recorder, or leases, whose every question and every append is preceded by the moment."""

    def __init__(self, asked: Any, moment: Moment) -> None:
        self._asked, self._moment = asked, moment

    def __getattr__(self, name: str) -> Any:
        there = getattr(self._asked, name)
        if name not in {"append", "seen"} and not name.startswith("select_"):
            return there

        def asked(*given: Any, **named: Any) -> Any:
            self._moment(name)
            return there(*given, **named)

        return asked
