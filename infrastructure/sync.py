"""The blocking twin: the same methods, run on a private event loop in a thread of its own.

It refuses to be used inside a running loop, where it would block everything else: use the async API there.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Literal, Self

from pydantic import JsonValue

from steptrail.domain.agent.commands import Verdict
from steptrail.domain.agent.config import Limits
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.agent.state import AgentState
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.record import Recorded
from steptrail.infrastructure.listeners import Listened
from steptrail.infrastructure.portal import Portal
from steptrail.infrastructure.trail import Session, Steptrail
from steptrail.projections.explanation import Explanation
from steptrail.projections.runs import RunSummary
from steptrail.projections.tree import RunTree
from steptrail.runtime.agent import Agent
from steptrail.runtime.agent_journal import OnCommit
from steptrail.runtime.follower import Follower
from steptrail.runtime.following import Followed, Following
from steptrail.runtime.live import OnUpdate
from steptrail.runtime.result import RunResult
from steptrail.runtime.subscription import LogEntry, OnCorrupt, Subscription

__all__ = ["SyncFollower", "SyncFollowing", "SyncSession", "SyncSteptrail", "SyncSubscription"]


class SyncSession:
    """`Session`, blocking."""

    def __init__(self, portal: Portal, session: Session) -> None:
        self._portal, self._session = portal, session
        self.agent_id = session.agent_id

    def send(self, agent: Agent, text: str | Message, *, by: str = "user", key: str | None = None) -> RunResult:
        """See `Session.send`."""
        return self._portal.call(self._session.send(agent, text, by=by, key=key))

    def retry(
        self,
        agent: Agent,
        *,
        by: str = "user",
        reason: str | None = None,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        key: str | None = None,
    ) -> RunResult:
        """See `Session.retry`."""
        work = self._session.retry(agent, by=by, reason=reason, limits=limits, error_policy=error_policy, key=key)
        return self._portal.call(work)

    def resume(
        self,
        agent: Agent,
        *,
        take_over: bool = False,
        strict: bool = False,
        limits: Limits | None = None,
        error_policy: ErrorPolicy | None = None,
        by: str = "user",
    ) -> RunResult:
        """See `Session.resume`."""
        work = self._session.resume(
            agent, take_over=take_over, strict=strict, limits=limits, error_policy=error_policy, by=by
        )
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

    def follow(self, *, after: int = 0, forever: bool = False) -> "SyncFollowing":
        """See `Session.follow`."""
        return SyncFollowing(self._portal, self._session.follow(after=after, forever=forever))

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

    def why(self, *, execution: str | int | None = None) -> Explanation:
        """See `Session.why`."""
        return self._portal.call(self._session.why(execution=execution))


class SyncSubscription:
    """`Subscription`, blocking: an iterator, and a context manager that closes it.

    Several threads may take from one; each event goes to one of them. `close` may come from any thread.
    """

    def __init__(self, portal: Portal, subscription: Subscription) -> None:
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


class SyncFollowing:
    """`Following`, blocking: an iterator, and a context manager that ends it. `close` may come from any thread."""

    def __init__(self, portal: Portal, following: Following) -> None:
        self._portal, self._following = portal, following

    @property
    def after(self) -> int:
        """See `Following.after`."""
        return self._following.after

    def close(self) -> None:
        """See `Following.aclose`."""
        if self._portal.is_open:
            self._portal.call(self._following.aclose())

    def __iter__(self) -> Self:
        """Return self."""
        return self

    def __next__(self) -> Followed:
        """Return what comes next, as soon as it is there."""
        if not self._following.is_over:
            try:
                return self._portal.call(self._following.__anext__())
            except StopAsyncIteration:
                pass
            except CancelledError:
                # Closing the trail cancels what has not ended by itself by then.
                if not self._following.is_over:
                    raise
        raise StopIteration

    def __enter__(self) -> Self:
        """Join those who follow, and return self."""
        self._portal.call(self._following.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the iteration."""
        self.close()


class SyncFollower:
    """`Follower`, blocking: a context manager, and in it an iterator."""

    def __init__(self, portal: Portal, follower: Follower) -> None:
        self._portal, self._follower = portal, follower
        self._entries = SyncSubscription(portal, follower.entries)

    @property
    def kept(self) -> int:
        """See `Follower.kept`."""
        return self._follower.kept

    def keep(self, position: int) -> None:
        """See `Follower.keep`."""
        self._portal.call(self._follower.keep(position))

    def __iter__(self) -> SyncSubscription:
        """Return what stands after the place that was kept, and then each entry as soon as it is stored."""
        return self._entries

    def __enter__(self) -> Self:
        """Take the work, and go to the place that was kept."""
        self._portal.call(self._follower.__aenter__())
        self._entries = SyncSubscription(self._portal, self._follower.entries)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let the next one work."""
        if self._portal.is_open:
            self._portal.call(self._follower.aclose())


class SyncSteptrail(Listened):
    """`Steptrail`, blocking. Made by `Steptrail.open_sync`; close it, or use it in `with`.

    Listeners are called in the thread of the loop.
    """

    def __init__(self, opened: Callable[[], Steptrail]) -> None:
        self._portal = Portal()
        try:
            self._trail = opened()
        except BaseException:
            self._portal.close()
            raise
        self._portal.on_drop = self._trail.close
        super().__init__(self._trail.listeners)

    def run(
        self,
        agent: Agent,
        input: str | Message,  # noqa: A002 - the public name
        *,
        session: str | None = None,
        by: str = "user",
        key: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        parent: ParentRef | None = None,
        history: Sequence[Message] = (),
        new: bool = False,
        on_commit: OnCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> RunResult:
        """See `Steptrail.run`. `on_commit` and `on_update` are called in the thread of the loop."""
        work = self._trail.run(
            agent,
            input,
            session=session,
            by=by,
            key=key,
            metadata=metadata,
            parent=parent,
            history=history,
            new=new,
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

    def follower(
        self, name: str, *, types: Sequence[str] = (), wait: bool = False, on_corrupt: OnCorrupt | None = None
    ) -> SyncFollower:
        """See `Steptrail.follower`. `on_corrupt` is called in the thread of the consumer."""
        return SyncFollower(self._portal, self._trail.follower(name, types=types, wait=wait, on_corrupt=on_corrupt))

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
