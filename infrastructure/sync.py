"""The blocking twin: the same methods, run on a private event loop in a thread of its own.

It refuses to be used inside a running loop, where it would block everything else: use the async API there.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from pydantic import JsonValue

from steptrail.domain.agent.commands import Verdict
from steptrail.domain.agent.config import Limits
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.record import Recorded
from steptrail.infrastructure.listeners import Listened
from steptrail.infrastructure.trail import Session, Steptrail
from steptrail.projections.explanation import Explanation
from steptrail.projections.runs import RunSummary
from steptrail.projections.tree import RunTree
from steptrail.runtime.agent import Agent
from steptrail.runtime.agent_journal import OnCommit
from steptrail.runtime.live import OnUpdate
from steptrail.runtime.result import RunResult
from steptrail.runtime.subscription import LogEntry, OnCorrupt, Subscription

__all__ = ["SyncSession", "SyncSteptrail", "SyncSubscription"]

T = TypeVar("T")


class _Portal:
    """A loop in a daemon thread, and the way into it."""

    def __init__(self) -> None:
        _refuse_inside_a_loop()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="steptrail-loop", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Tell whether the loop runs."""
        return not self._loop.is_closed()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. A `KeyboardInterrupt` cancels it first, which pauses the run."""
        try:
            _refuse_inside_a_loop()
        except ConfigurationError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            # The task still has its pause to write. What other threads run here goes on.
            asyncio.run_coroutine_threadsafe(_ended(work), self._loop).result()
            raise

    def close(self) -> None:
        """Cancel what other threads still run here, then end the loop and its thread."""
        asyncio.run_coroutine_threadsafe(_end_the_rest(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSession:
    """`Session`, blocking."""

    def __init__(self, portal: _Portal, session: Session) -> None:
        self._portal, self._session = portal, session
        self.agent_id = session.agent_id

    def send(self, agent: Agent, text: str | Message, *, by: str = "user", key: str | None = None) -> RunResult:
        """See `Session.send`."""
        return self._portal.call(self._session.send(agent, text, by=by, key=key))

    def resume(
        self,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
    ) -> RunResult:
        """See `Session.resume`."""
        work = self._session.resume(agent, take_over=take_over, strict=strict, limits=limits, error_policy=error_policy)
        return self._portal.call(work)

    def pause(self, *, reason: str | None = None, by: str = "user", key: str | None = None) -> RunResult:
        """See `Session.pause`."""
        return self._portal.call(self._session.pause(reason=reason, by=by, key=key))

    def stop(self, *, by: str = "user", reason: str | None = None, key: str | None = None) -> RunResult:
        """See `Session.stop`."""
        return self._portal.call(self._session.stop(by=by, reason=reason, key=key))

    def settle(
        self,
        effect_id: str,
        verdict: Verdict,
        *,
        by: str = "user",
        result: JsonValue = None,
        message: str | None = None,
    ) -> RunResult:
        """See `Session.settle`."""
        work = self._session.settle(effect_id, verdict, by=by, result=result, message=message)
        return self._portal.call(work)

    def approve(
        self,
        approval_id: str,
        *,
        by: str,
        reason: str | None = None,
        arguments: dict[str, JsonValue] | None = None,
        digest: str | None = None,
        key: str | None = None,
    ) -> RunResult:
        """See `Session.approve`."""
        work = self._session.approve(approval_id, by=by, reason=reason, arguments=arguments, digest=digest, key=key)
        return self._portal.call(work)

    def deny(self, approval_id: str, *, by: str, reason: str | None = None, key: str | None = None) -> RunResult:
        """See `Session.deny`."""
        return self._portal.call(self._session.deny(approval_id, by=by, reason=reason, key=key))

    def state(self, *, at: int | None = None) -> AgentState:
        """See `Session.state`."""
        return self._portal.call(self._session.state(at=at))

    def result(self) -> RunResult:
        """See `Session.result`."""
        return self._portal.call(self._session.result())

    def events(self, *, after: int = 0) -> Sequence[Recorded[AgentEvent]]:
        """See `Session.events`."""
        return self._portal.call(self._session.events(after=after))

    def history(self, *, at: int | None = None) -> Sequence[Recorded[AgentEvent]]:
        """See `Session.history`."""
        return self._portal.call(self._session.history(at=at))

    def fork(
        self,
        *,
        at: int | None = None,
        session: str | None = None,
        name: str | None = None,
        by: str = "user",
        reason: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> "SyncSession":
        """See `Session.fork`."""
        work = self._session.fork(at=at, session=session, name=name, by=by, reason=reason, metadata=metadata)
        return SyncSession(self._portal, self._portal.call(work))

    def why(self) -> Explanation:
        """See `Session.why`."""
        return self._portal.call(self._session.why())


class SyncSubscription:
    """`Subscription`, blocking: an iterator, and a context manager that closes it.

    Several threads may take from one; each event goes to one of them. `close` may come from any thread.
    """

    def __init__(self, portal: _Portal, subscription: Subscription) -> None:
        self._portal, self._subscription = portal, subscription
        self._taking = threading.Lock()

    def close(self) -> None:
        """See `Subscription.aclose`."""
        if self._portal.is_open:
            self._portal.call(self._subscription.aclose())

    def __iter__(self) -> Self:
        """Return self."""
        return self

    def __next__(self) -> LogEntry:
        """Return the next entry as soon as it is stored."""
        with self._taking:
            while not self._subscription.is_over:
                if (entry := self._subscription.ready()) is not None:
                    return entry
                try:
                    self._portal.call(self._subscription.fill())
                except CancelledError:
                    # Closing the trail cancels what has not ended by itself by then.
                    if not self._subscription.is_over:
                        raise
        raise StopIteration

    def __enter__(self) -> Self:
        """Fix where the subscription begins, and return self."""
        self._portal.call(self._subscription.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the subscription."""
        self.close()


class SyncSteptrail(Listened):
    """`Steptrail`, blocking. Made by `Steptrail.open_sync`; close it, or use it in `with`.

    Listeners are called in the thread of the loop.
    """

    def __init__(self, opened: Callable[[], Steptrail]) -> None:
        self._portal = _Portal()
        try:
            self._trail = opened()
        except BaseException:
            self._portal.close()
            raise
        super().__init__(self._trail.listeners)

    def run(
        self,
        agent: Agent,
        input: str | Message,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> RunResult:
        """See `Steptrail.run`. `on_commit` and `on_update` are called in the thread of the loop."""
        work = self._trail.run(
            agent,
            input,
            session=session,
            key=key,
            metadata=metadata,
            parent=parent,
            history=history,
            on_commit=on_commit,
            on_update=on_update,
        )
        return self._portal.call(work)

    def session(
        self, agent_id: str, *, on_commit: OnCommit | None = None, on_update: OnUpdate | None = None
    ) -> SyncSession:
        """See `Steptrail.session`."""
        return SyncSession(self._portal, self._trail.session(agent_id, on_commit=on_commit, on_update=on_update))

    def find(self, prefix: str) -> SyncSession:
        """See `Steptrail.find`."""
        return SyncSession(self._portal, self._portal.call(self._trail.find(prefix)))

    def runs(self, *, keep: Callable[[RunSummary], bool] | None = None) -> Sequence[RunSummary]:
        """See `Steptrail.runs`."""
        return self._portal.call(self._trail.runs(keep=keep))

    def tree(self, agent_id: str) -> RunTree:
        """See `Steptrail.tree`."""
        return self._portal.call(self._trail.tree(agent_id))

    def subscribe(
        self,
        after: int | Literal["now"] = 0,
        *,
        types: Sequence[str] = (),
        session: str | None = None,
        follow: bool = True,
        on_corrupt: OnCorrupt | None = None,
    ) -> SyncSubscription:
        """See `Steptrail.subscribe`. `on_corrupt` is called in the thread of the consumer."""
        subscription = self._trail.subscribe(after, types=types, session=session, follow=follow, on_corrupt=on_corrupt)
        return SyncSubscription(self._portal, subscription)

    def due(self) -> Sequence[RunSummary]:
        """See `Steptrail.due`."""
        return self._portal.call(self._trail.due())

    def close(self) -> None:
        """Close the store and end the loop. Safe to call twice."""
        if self._portal.is_open:
            self._portal.call(self._trail.close())
            self._portal.close()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()


async def _end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _ended(work: Coroutine[Any, Any, T]) -> None:
    running = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    if running:
        await asyncio.wait(running)


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError("the blocking API cannot be used inside a running event loop: use `Steptrail.open`")
