"""The things that all streams of a process share."""

import os
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.runtime.kernel.observer import Observer
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["Environment", "this_worker"]


def this_worker() -> str:
    """Return how this process is called in the log: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The things that every stream of a process shares.

    `draw` returns a random number in [0, 1). What is drawn is recorded, and a replay gives it back.
    """

    store: EventStore
    clock: Clock = field(default_factory=SystemClock)
    worker: str = field(default_factory=this_worker)
    reach: Reach = no_faults
    draw: Callable[[], float] = random.random
    observer: Observer | None = None
    fanout: LiveFanout = field(default_factory=LiveFanout)
