"""Goes on with whatever is due in a store, for streams of any kind, and leaves them to others when it ends.

A worker holds nothing but its tasks. What is due stands in the index, and who owns a stream is decided by its lease, so
any number of workers may serve one store, and one that dies leaves what it did to the others. Where a worker hears of
what is due is all that differs: it looks at the index each time when the log grows, or an engine wakes it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Self

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.kernel.closing import close_all
from steptrail.runtime.kernel.engine import WorkerReport
from steptrail.runtime.kernel.hands import Hands
from steptrail.runtime.kernel.looking import Looking
from steptrail.runtime.kernel.woken import Woken


class Worker(AbstractAsyncContextManager["Worker"]):
    """Carries on what is due until it is left. An async context manager.

    At the end it drains: each of its runs is asked to pause, and what is in flight may end within a grace and is cut
    off then. Such a pause was asked for by no person, so the runs stay due. Runs that a call of another run began are
    carried on with that one.
    """

    def __init__(self, hands: Hands, hearing: Looking | Woken) -> None:
        self._hands, self._hearing, self._has_begun = hands, hearing, False

    @property
    def running(self) -> Sequence[str]:
        """The streams that are being carried on here now."""
        return self._hands.running

    @property
    def left(self) -> Mapping[str, int]:
        """The streams that are due and were left as they are, each with the version at which that was."""
        return self._hands.left

    def report(self) -> WorkerReport:
        """Return what there is to say of the worker: what it carries on, and how often it was woken for nothing."""
        return self._hearing.report(self._hands)

    async def drain(self) -> None:
        """Take up nothing more, and leave what runs to others. Safe to call twice.

        A caller that is cancelled cuts off at once what runs, because others may take it up as soon as the store is
        closed.
        """
        try:
            await self._hearing.give_no_more()
            await self._hands.drain()
        finally:
            try:
                await self._hands.cut_off()
            finally:
                await close_all([self._hearing.end])

    async def __aenter__(self) -> Self:
        """Begin to carry on what is due, and return self. Raises `ConfigurationError` where that was done before."""
        if self._has_begun:
            raise ConfigurationError("this worker has been entered before: make another one by `trail.work(…)`")
        await self._hearing.begin(self._hands)
        self._has_begun = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drain."""
        await self.drain()
