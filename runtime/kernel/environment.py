"""The surroundings that all streams of a process share: store, clock, worker name and observers."""

import os
import random
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.at_work import AtWork
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.waking import Waking


class Observer(Protocol):
    """Is told of commits, and chooses the watcher of live updates."""

    is_watching: bool
    """Whether the observer wants to be told of commits now."""

    def committed(self, stream: str, before: FoldedState, records: Sequence[Recorded[Any]]) -> None:
        """Be told of a durable commit to a stream. `before` is the state that the commit was appended to."""
        ...

    def watcher(self, own: OnUpdate | None) -> OnUpdate | None:
        """Return the watcher of a run, which has to call `own` as well; None when the run needs no watcher."""
        ...


def this_worker() -> str:
    """Return the name of this process in the log: its host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Environment(Struct, frozen=True, kw_only=True):
    """The store, the clock and the other surroundings that all streams of a process share.

    `draw` returns a random number in [0, 1), and `moved` which streams below a run went on when its segment of a number
    began. Both are recorded, and a replay returns what was. Without a `moved` the index is asked. `waking` tells an
    engine what commits have made due; None where there can be no engine.
    """

    store: EventStore
    clock: Clock = field(default_factory=SystemClock)
    worker: str = field(default_factory=this_worker)
    reach: Reach = no_faults
    draw: Callable[[], float] = random.random
    moved: Callable[[int], tuple[str, ...] | None] | None = None
    observer: Observer | None = None
    fanout: LiveFanout = field(default_factory=LiveFanout)
    waking: Waking | None = None
    at_work: AtWork = field(default_factory=AtWork)
