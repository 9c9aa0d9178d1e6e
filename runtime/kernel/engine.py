"""The port to an engine that distributes work: it only says that a stream may be due. Its adapters are infrastructure.

An engine may wake a stream twice, late, in two processes at once, or never, and no harm is done: a worker that is woken
looks whether the stream is due, who owns it is decided by its lease, and what is stored by the log. What an engine
forgets is found by the sweep of a worker. So an engine holds nothing that may not be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from steptrail.domain.shared.summary import RunSummary


class Wake(Struct, frozen=True, kw_only=True):
    """A wish that somebody looks at a stream.

    `topic` is what a worker must be able to carry on, such as `agent:triage`. It is to come in so many `seconds` from
    when the engine is told: the clocks of the workers and of the engine's server may be hours apart.
    """

    stream: str
    topic: str
    seconds: float = 0.0


Handler: TypeAlias = Callable[[Wake], Awaitable[None]]
"""Looks at a stream, carries it on if it is due, and returns when nothing is left to do. It does not raise.

It may be cancelled, which does not end what it has begun.
"""


class WorkerReport(Struct, frozen=True, kw_only=True):
    """One worker, as it says of itself. Instants are microseconds of UTC.

    `running` are the streams that it carries on, and `left` those that it has left as they are. Of `wakes`,
    `without_effect` found nothing to do: what was woken was not due, or another worker was quicker.
    """

    worker: str
    topics: tuple[str, ...]
    concurrency: int
    began_at: int
    seen_at: int
    running: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    wakes: int = 0
    without_effect: int = 0


class TopicStatus(Struct, frozen=True, kw_only=True):
    """The wakes of one topic: how many wait for a worker, since when the oldest, and how many are for a later time.

    `since` is in microseconds of UTC; None when none waits. `is_served` tells whether a worker of this topic lives.
    """

    waiting: int = 0
    since: int | None = None
    later: int = 0
    is_served: bool = False


class EngineStatus(Struct, frozen=True, kw_only=True):
    """The contents of an engine: the wakes of each topic, and the last report of each worker that has not ended."""

    topics: Mapping[str, TopicStatus]
    workers: Sequence[WorkerReport]


class Engine(Protocol):
    """Wakes streams. It belongs to the event loop in which it is opened. Each method may raise `StoreUnavailable`."""

    @property
    def name(self) -> str:
        """The name of the engine, for people."""
        ...

    async def open(self) -> None:
        """Connect, and make what the engine needs. Safe to call again, and from many processes at once."""
        ...

    async def wake(self, wake: Wake) -> None:
        """See to it that a handler of the topic is called for the stream, in about `seconds`.

        A wake of the stream that waits already is replaced if it is later or of another topic, else it stands for both.
        """
        ...

    async def wake_missed(self, wakes: Sequence[Wake]) -> int:
        """Do what `wake` does for those streams of which no wake of the topic waits, and none is being handled.

        Returns how many these are.
        """
        ...

    async def cancel(self, stream: str) -> None:
        """Forget a wake that waits for the stream."""
        ...

    async def run(self, handler: Handler, *, topics: Sequence[str], concurrency: int, until: asyncio.Event) -> None:
        """Call the handler for wakes of these topics, at most `concurrency` at once, until `until` is set.

        Returns soon after that; a call that has not returned by then is cancelled. A failure of the engine's server is
        logged and waited out.
        """
        ...

    async def report(self, report: WorkerReport | None, worker: str) -> None:
        """Store what a worker says of itself, for `status`; None when it ends."""
        ...

    async def status(self) -> EngineStatus:
        """Return what the engine holds."""
        ...

    async def close(self) -> None:
        """Release every resource. Safe to call twice."""
        ...


def topic_of(row: RunSummary) -> str:
    """Return what a worker must be able to carry on to go on with a stream."""
    return f"{row.kind}:{row.name}"


def wake_of(row: RunSummary, *, at: int | None = None, now: int = 0) -> Wake:
    """Return the wish that somebody looks at a stream: at once, or at an instant `at` of the clock that shows `now`."""
    return Wake(stream=row.stream, topic=topic_of(row), seconds=0.0 if at is None else max(0.0, (at - now) / 1e6))
