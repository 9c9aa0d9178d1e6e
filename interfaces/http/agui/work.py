"""The worker behind an endpoint, and the streams that look on while it works.

A request only stores what is wanted. The worker does it, here or in another process, and whatever a crash or a deploy
left it takes up without a request.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.sse import End
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.kernel.following import Following
from steptrail.runtime.kernel.worker import Worker


class EndpointWork:
    """The work of one endpoint. With a `concurrency` of 0 there is no worker here: another one does it."""

    def __init__(self, trail: Steptrail, agent: AnyAgent, *, concurrency: int, grace: float) -> None:
        self._make = partial(trail.work, agent, concurrency=concurrency, grace=grace, live=True, on_left=self._note)
        self._worker = self._make() if a_whole(concurrency, "concurrency") else None
        self.is_closing = False
        """Whether the server is about to end."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context, self._beginning = copy_context(), asyncio.Lock()
        self._looking: dict[Following, str] = {}
        self._errors: dict[str, Exception] = {}
        self._ending = set[asyncio.Task[None]]()

    async def open(self) -> None:
        """Begin, also again after `close`, as an application does that each test starts. Raises what `begin` raises."""
        if self.is_closing:
            self._renew()
        await self.begin()

    async def begin(self) -> None:
        """Begin to carry on what is due. Safe to call twice. Raises `StoreUnavailable` when the engine is away.

        A worker whose loop has ended, as after each request of a test client, has ended with it: another one begins.
        """
        if self._loop is not None and self._loop.is_closed():
            self._renew()
        async with self._beginning:
            if self._worker is not None and not (self._loop or self.is_closing):
                # It works for all, so not in the context of the request that came first, which may say who asks.
                await asyncio.create_task(self._enter(self._worker), context=self._context.copy())

    def _renew(self) -> None:
        # A lock for which somebody has waited belongs to the loop of that time.
        self._worker, self._loop, self.is_closing = self._worker and self._make(), None, False
        self._beginning = asyncio.Lock()

    async def _enter(self, worker: Worker) -> None:
        await worker.__aenter__()
        self._loop = asyncio.get_running_loop()  # here, since a request that is cut off now sees nothing of it

    async def close(self) -> None:
        """End the streams, and leave what runs to other workers. Safe to call twice."""
        self.is_closing = True
        for following in list(self._looking):
            await following.aclose()
        async with self._beginning:
            if self._worker is not None and self._loop is asyncio.get_running_loop():
                await self._worker.drain()

    @contextmanager
    def looking(self, state: AgentState, following: Following, end: End) -> Generator[None]:
        """Have the iteration ended when the server ends, or when the session cannot be carried on here."""
        self._looking[following] = _stream(state)
        closing = asyncio.create_task(_close(following, end))
        try:
            yield
        finally:
            closing.cancel()
            del self._looking[following]

    def failure(self, state: AgentState) -> Exception | None:
        """Return the error for which the worker leaves the session as it is; None when it does not."""
        # Asked for each piece of text of each client. Of what is left, which may be thousands, few have failed.
        error, worker = self._errors.get(stream := _stream(state)), self._worker
        if error is None or worker is None or worker.left.get(stream) != state.version:
            return None
        return error

    def _note(self, row: RunSummary, error: Exception | None) -> None:
        if error is None or self._worker is None:
            return
        left = self._worker.left
        self._errors = {stream: each for stream, each in self._errors.items() if stream in left}
        self._errors[row.stream] = error
        for following in [each for each, stream in self._looking.items() if stream == row.stream]:
            ending = asyncio.ensure_future(following.aclose())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


async def _close(following: Following, end: End) -> None:
    await end()
    await following.aclose()


def _stream(state: AgentState) -> str:
    return stream_of(checked_session_id(state.agent_id))
