"""The lease of a stream: only the process that holds it may drive the stream."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from steptrail.domain.errors import SessionBusy
from steptrail.domain.kernel.machine import E, Machine, S
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.ports import Lease

LOOKS, _LOOK_SECONDS = 20, 0.05
"""How many times, and how many seconds apart, to try again to get the lease of a stream that is at rest."""


@asynccontextmanager
async def hold_lease(
    environment: Environment,
    machine: Machine[S, Any, E, Any],
    journal: Journal[S, E],
    *,
    take_over: bool = False,
    looks: int = LOOKS,
    after_release: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator[None]:
    """Hold the lease of the journal's stream. `after_release` is called once the lease is free again.

    An owner whose stream is at rest is about to begin or to let go: then the lease is tried again, at most `looks`
    times. Raises `SessionBusy` when another process keeps the lease, unless it is to `take_over`, and
    `StoreUnavailable` when the trail is closed meanwhile.
    """
    with environment.at_work.here():
        environment.reach("before-acquire")
        lease = await _acquire(environment, machine, journal, take_over=take_over, looks=looks)
        environment.reach("after-acquire")
        try:
            yield
        finally:
            environment.reach("before-release")
            await lease.release()
            environment.reach("after-release")
            if after_release is not None:
                await after_release()


async def _acquire(
    environment: Environment, machine: Machine[S, Any, E, Any], journal: Journal[S, E], *, take_over: bool, looks: int
) -> Lease:
    store, stream = environment.store, journal.stream
    version_at_rest: int | None = None
    while True:
        try:
            return await store.acquire(stream, owner="a steptrail runner", take_over=take_over)
        except SessionBusy:
            if version_at_rest is None:
                state = (await journal.reloaded()).committed
                if not machine.control.standing(state).is_at_rest:
                    raise
                version_at_rest = state.version
            # An owner that appends has begun to work: it will not let go soon.
            if looks == 0 or await store.version(stream) != version_at_rest:
                raise
        looks -= 1
        await asyncio.sleep(_LOOK_SECONDS)
