"""Listeners of one process: plain functions that are told what happens in its runs, as it happens.

They are told after the commit, in the order of each session, in the event loop of the run. A listener that fails is
logged and left to itself. What nobody may miss is not for listeners: a subscription to the log has a place to go on at.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

from msgspec import Struct

from steptrail.domain.copies import own
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.given import a_function, a_plain_function
from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, NodeDelta, NodeProgress, OutputPartial, ReplyDelta, ToolProgress
from steptrail.projections.kinds import PROJECTIONS
from steptrail.runtime.kernel.live_updates import OnUpdate, tell
from steptrail.runtime.kernel.log_raised import log_first

if TYPE_CHECKING:
    from steptrail.projections.lifecycle import RunEvent

Listenable: TypeAlias = "RunEvent | LiveUpdate"
"""The types that can be listened to: every lifecycle event, and the live updates between two of them."""

T = TypeVar("T", bound=Listenable)

_LIVE = (ReplyDelta, OutputPartial, ToolProgress, NodeDelta, NodeProgress)
_log = logging.getLogger("steptrail.runs")


class ListenerRegistration:
    """A listener that was registered. `stop` takes it off again, and so does leaving its `with` block."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def stop(self) -> None:
        """Tell the listener no more. Safe to call twice, from any thread."""
        self._stop()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self.stop()


class _Entry(Struct, eq=False):
    kind: type[Any]
    listener: Callable[[Any], object]
    failed_on: set[type[object]] = set()

    def tell(self, said: Listenable) -> None:
        try:
            answer = self.listener(said)
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError("a listener is a plain function, and this one returned a coroutine")
        except (Exception, asyncio.CancelledError) as error:  # a plain function is cancelled by nobody else
            name = getattr(self.listener, "__qualname__", type(self.listener).__qualname__)
            log_first(_log, error, f"listener {name}", said, said.session_id, self.failed_on)


class Listeners:
    """Everybody who listens, and the way to them. May be changed from any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._to_events: tuple[_Entry, ...] = ()
        self._to_live: tuple[_Entry, ...] = ()
        self._to_commits: Callable[[str, Sequence[Recorded[Event]]], None] | None = None
        self.is_watching = False

    def add(self, kind: type[Any], listener: Callable[[Any], object]) -> ListenerRegistration:
        """Register a listener; see `HasListeners.on`."""
        entry = _Entry(_listenable(kind), _plain(listener))
        with self._changing:
            self._set((*self._all(), entry))
        return ListenerRegistration(lambda: self._remove(entry))

    def on_commits(self, told: Callable[[str, Sequence[Recorded[Event]]], None]) -> None:
        """Have `told` told of every commit, besides the listeners."""
        self._to_commits, self.is_watching = told, True

    def committed(self, stream: str, before: FoldedState, records: Sequence[Recorded[Event]]) -> None:
        """Tell what a commit means to those who listen for it."""
        if self._to_commits is not None:
            self._to_commits(stream, tuple(records))
        projections = PROJECTIONS.of(stream) if self._to_events else None
        if projections is None:
            return
        fold, entries = projections.lifecycle(before), self._to_events
        for record in records:
            for event in fold.apply(record):
                for entry in entries:
                    if isinstance(event, entry.kind):
                        entry.tell(own(event))

    def watcher(self, own: OnUpdate | None) -> OnUpdate | None:
        """Return who is told of live updates: `own` alone, unless somebody listens for them."""
        if not self._to_live:
            return own

        def tell_all(update: LiveUpdate) -> None:
            if own is not None:
                tell(own, update)
            for entry in self._to_live:
                if isinstance(update, entry.kind):
                    entry.tell(update)

        return tell_all

    def _all(self) -> tuple[_Entry, ...]:
        return (*self._to_events, *self._to_live)

    def _remove(self, entry: _Entry) -> None:
        with self._changing:
            self._set(tuple(each for each in self._all() if each is not entry))

    def _set(self, entries: tuple[_Entry, ...]) -> None:
        self._to_live = tuple(each for each in entries if issubclass(each.kind, _LIVE))
        self._to_events = tuple(each for each in entries if not issubclass(each.kind, _LIVE))
        self.is_watching = bool(self._to_events) or self._to_commits is not None


class HasListeners:
    """The methods by which a trail and its blocking twin let functions listen."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    @property
    def listeners(self) -> Listeners:
        """Everybody who listens."""
        return self._listeners

    def on(self, event_type: type[T], listener: Callable[[T], object]) -> ListenerRegistration:
        """Have `listener` told of every `event_type` from now on, subclasses included, until the result is stopped.

        `event_type` is a class of `steptrail.lifecycle`; or it is `ReplyDelta`, `OutputPartial`, `ToolProgress`,
        `NodeDelta` or `NodeProgress`, which make models stream from the next call on. A listener is a plain function.
        It is told of what this process stores, in the thread of the run, after it is stored and at most once. What it
        raises is logged, once for each type. Raises `ConfigurationError` for anything else.
        """
        return self._listeners.add(event_type, listener)

    def wiretap(self, listener: "Callable[[RunEvent], object]") -> ListenerRegistration:
        """Have `listener` told of every lifecycle event; see `on`."""
        from steptrail.projections.lifecycle import RunEvent

        return self._listeners.add(RunEvent, listener)


def _listenable(kind: object) -> type[Any]:
    from steptrail.projections.lifecycle import RunEvent

    if isinstance(kind, type) and issubclass(kind, (RunEvent, *_LIVE)):
        return kind
    live = ", ".join(f"`{each.__name__}`" for each in _LIVE)
    raise ConfigurationError(f"{kind!r} cannot be listened to: use a class of `steptrail.lifecycle`, or one of {live}")


def _plain(listener: object) -> Callable[[Any], object]:
    a_function(listener, "a listener", "the event")
    try:
        return cast("Callable[[Any], object]", a_plain_function(listener, "a listener"))
    except ConfigurationError as error:
        msg = "hand events to async code with a queue's `put_nowait`, or follow the log with `trail.subscribe`"
        raise ConfigurationError(f"{error}: {msg}") from None
