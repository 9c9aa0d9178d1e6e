"""The blocking twin: the same methods, run on a private event loop in a thread of its own.

It refuses to be used inside a running loop, where it would block everything else: use the async API there. Methods
without a docstring here have the signature and the docstring of the async method they call.
"""

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.messages import Message
from steptrail.infrastructure.portal import Portal, refuse_inside_a_loop
from steptrail.interfaces.python.handle import AnyHandle
from steptrail.interfaces.python.listeners import HasListeners
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.interfaces.python.twins import BlockingClosing, Twin, blocking, fetched, made
from steptrail.runtime.agent.agent import Agent, AnyAgent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.type_variables import OutputT
from steptrail.runtime.kernel.follower import Follower
from steptrail.runtime.kernel.following import Followed, Following
from steptrail.runtime.kernel.subscription import Subscription

if TYPE_CHECKING:
    from steptrail.interfaces.python.flow import Flow
    from steptrail.interfaces.python.sync_flow import SyncFlow
    from steptrail.interfaces.python.sync_views import SyncViews
    from steptrail.runtime.flow.kind import OnFlowCommit
    from steptrail.runtime.flow.workflow import BuiltWorkflow
    from steptrail.runtime.kernel.live_updates import OnUpdate


S = TypeVar("S", bound=Subscription | Following)
T = TypeVar("T")


class _Reading(BlockingClosing, Generic[S]):
    """A blocking iterator over what an async one yields, and a context manager that closes it."""

    def __init__(self, portal: Portal, source: S) -> None:
        self._portal, self._source = portal, source

    def close(self) -> None:
        """End the iteration. Safe to call twice, and from any thread."""
        if self._portal.is_open:
            self._portal.call(self._source.aclose())

    def __iter__(self) -> Self:
        """Return self."""
        return self

    def __enter__(self) -> Self:
        """Fix where it begins, and return self."""
        self._portal.call(self._source.begin())
        return self

    def _waited(self, coming: Coroutine[Any, Any, T]) -> T | None:
        """Return what comes; None where the trail was closed, which cancels what has not ended by itself by then."""
        try:
            return self._portal.call(coming)
        except StoreUnavailable:
            if not self._source.is_over:
                raise
            return None


class SyncSubscription(_Reading[Subscription]):
    """`Subscription`, blocking: an iterator, and a context manager that closes it.

    Several threads may take from one; each event goes to one of them. `close` may come from any thread. `on_corrupt` is
    called in the thread of the consumer.
    """

    def __init__(self, portal: Portal, source: Subscription) -> None:
        super().__init__(portal, source)
        self._taking = threading.Lock()

    def __next__(self) -> LogEntry:
        """Return the next entry as soon as it is stored."""
        with self._taking:
            while not self._source.is_over:
                if (entry := self._source.ready()) is not None:
                    return entry
                self._waited(self._source.fill())
        raise StopIteration


class SyncFollowing(_Reading[Following]):
    """`Following`, blocking: an iterator, and a context manager that ends it. `close` may come from any thread."""

    @property
    def after(self) -> int:
        """See `Following.after`."""
        return self._source.after

    def __next__(self) -> Followed:
        """Return what comes next, as soon as it is there."""
        with suppress(StopAsyncIteration):
            if not self._source.is_over and (came := self._waited(self._source.__anext__())) is not None:
                return came
        raise StopIteration


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

    def __iter__(self) -> Iterator[LogEntry]:
        """Return what stands after the place that was kept, and then each entry as soon as it is stored."""
        return map(self._follower.ours, self._entries)

    def __enter__(self) -> Self:
        """Take the work, and go to the place that was kept."""
        self._portal.call(self._follower.__aenter__())
        self._entries = SyncSubscription(self._portal, self._follower.entries)
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next one work."""
        if self._portal.is_open:
            self._portal.call(self._follower.aclose())


class SyncHandle(Twin[AnyHandle]):
    """`Handle`, blocking."""

    def __init__(self, portal: Portal, handle: AnyHandle) -> None:
        super().__init__(portal, handle)
        self.stream_id, self.id = handle.stream_id, handle.id

    state = blocking(AnyHandle.state)
    events = blocking(AnyHandle.events)
    history = blocking(AnyHandle.history)
    scores = blocking(AnyHandle.scores)
    why = blocking(AnyHandle.why)
    follow = made(AnyHandle.follow, SyncFollowing)


class SyncSession(Twin[Session]):
    """`Session`, blocking."""

    def __init__(self, portal: Portal, session: Session) -> None:
        super().__init__(portal, session)
        self.session_id, self.stream_id, self.id = session.session_id, session.stream_id, session.id

    send = blocking(Session.send)
    post = blocking(Session.post)
    retry = blocking(Session.retry)
    resume = blocking(Session.resume)
    requeue = blocking(Session.requeue)
    pause = blocking(Session.pause)
    unpause = blocking(Session.unpause)
    stop = blocking(Session.stop)
    settle = blocking(Session.settle)
    answer = blocking(Session.answer)
    file = blocking(Session.file)
    approve = blocking(Session.approve)
    deny = blocking(Session.deny)
    score = blocking(Session.score)
    scores = blocking(Session.scores)
    state = blocking(Session.state)

    @overload
    def result(self) -> RunResult[Any]: ...
    @overload
    def result(self, agent: Agent[OutputT, Any]) -> RunResult[OutputT]: ...
    def result(self, agent: AnyAgent | None = None) -> RunResult[Any]:
        """See `Session.result`."""
        found = self._asynchronous.result() if agent is None else self._asynchronous.result(agent)
        return self._portal.call(found)

    events = blocking(Session.events)
    history = blocking(Session.history)
    why = blocking(Session.why)
    follow = made(Session.follow, SyncFollowing)
    fork = fetched(Session.fork, lambda portal, session: SyncSession(portal, session))
    regenerate = blocking(Session.regenerate)


class SyncSteptrail(HasListeners, Twin[Steptrail], BlockingClosing):
    """`Steptrail`, blocking. Made by `Steptrail.open_sync`; close it, or use it in `with`.

    Listeners, `on_commit` and `on_update` are called in the thread of the loop.
    """

    def __init__(self, opened: Callable[[], Steptrail]) -> None:
        self._portal = Portal()
        try:
            self._asynchronous = opened()
        except BaseException:
            self._portal.close()
            raise
        self._portal.on_drop = self._asynchronous.close
        self._closing = threading.Lock()
        super().__init__(self._asynchronous.listeners)

    run = blocking(Steptrail.run)

    @overload
    def start(self, agent: Agent[Any, Any], input: str | Message, **given: Any) -> SyncSession: ...
    @overload
    def start(self, agent: "BuiltWorkflow", input: object = None, **given: Any) -> "SyncFlow": ...
    def start(self, agent: Any, input: Any = None, **given: Any) -> Any:  # noqa: A002 - the public name
        """See `Steptrail.start`."""
        begun = cast("Coroutine[Any, Any, Session | Flow]", self._asynchronous.start(agent, input, **given))
        handle = self._portal.call(begun)
        return SyncSession(self._portal, handle) if isinstance(handle, Session) else self.flow(handle.id)

    runs = blocking(Steptrail.runs)
    tree = blocking(Steptrail.tree)
    what_if = blocking(Steptrail.what_if)
    due = blocking(Steptrail.due)
    inbox = blocking(Steptrail.inbox)
    erase = blocking(Steptrail.erase)
    retain = blocking(Steptrail.retain)
    finish_erasing = blocking(Steptrail.finish_erasing)
    erasure = blocking(Steptrail.erasure)
    check_not_erased = blocking(Steptrail.check_not_erased)
    fleet = blocking(Steptrail.fleet)
    find = fetched(Steptrail.find, SyncSession)
    find_any = fetched(Steptrail.find_any, SyncHandle)
    session = made(Steptrail.session, SyncSession)
    handle = made(Steptrail.handle, SyncHandle)

    def flow(
        self, flow_id: str, *, on_commit: "OnFlowCommit | None" = None, on_update: "OnUpdate | None" = None
    ) -> "SyncFlow":
        """See `Steptrail.flow`."""
        from steptrail.interfaces.python.sync_flow import SyncFlow

        return SyncFlow(self._portal, self._asynchronous.flow(flow_id, on_commit=on_commit, on_update=on_update))

    @property
    def views(self) -> "SyncViews":
        """See `Steptrail.views`."""
        from steptrail.interfaces.python.sync_views import SyncViews

        return SyncViews(self._portal, self._asynchronous.views)

    subscribe = made(Steptrail.subscribe, SyncSubscription)
    follower = made(Steptrail.follower, SyncFollower)

    def close(self) -> None:
        """Close the store and end the loop. Safe to call twice, and from several threads: all wait for the end."""
        if self._portal.is_over:
            return
        refuse_inside_a_loop()  # it would wait there for who is closing it, and that one for the loop
        with self._closing:
            if not self._portal.is_over:
                try:
                    self._portal.call(self._asynchronous.close())
                finally:
                    self._portal.close()
