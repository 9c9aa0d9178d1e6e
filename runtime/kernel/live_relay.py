"""Exchanges live updates with the other processes of a store, as far as somebody follows.

A process says which sessions its followers want to see, again and again. The process that runs one of them sends it the
reply that is being written, from its beginning. Nothing is sent that nobody wants. Every piece says where in its reply
it begins. So a process that has missed one does not show the pieces that follow, and asks for the reply anew.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Protocol

from steptrail.domain.live import LiveUpdate, ReplyDelta, ToolProgress
from steptrail.runtime.kernel.live_bus import Letter, LiveBus
from steptrail.runtime.kernel.live_lines import LiveLines
from steptrail.runtime.kernel.live_reply import ReplyKey, ReplySoFar
from steptrail.runtime.kernel.live_wire import CallsShown, TextShown, Wants, decoded, wants

__all__ = ["LiveRelay", "LiveSink"]

_RENEW_SECONDS = 10.0
"""How often a process says what it wants."""
_ASK_AGAIN_SECONDS = 1.0
_NEVER = float("inf")


class LiveSink(Protocol):
    """The followers and runs of the relay's own process. It is called from any thread, and may not wait."""

    def reply_of(self, session: str) -> ReplySoFar | None:
        """Return the reply that is being written by a run of this process."""
        ...

    def show(self, session: str, version: int, update: LiveUpdate) -> None:
        """Show an update of another process to the followers here."""
        ...

    def drop(self, session: str, key: ReplyKey) -> None:
        """Keep the text of another process's reply no more, because the reply broke off."""
        ...


@dataclass(slots=True)
class _Heard:
    """How much of a reply of another process has come here."""

    version: int
    key: ReplyKey
    length: int = 0
    has_ended: bool = False


class LiveRelay:
    """Implements `LiveTraffic`. Its methods may be called from any thread."""

    def __init__(self, bus: LiveBus, sink: LiveSink, clock: Callable[[], float]) -> None:
        self.name = token_hex(8)
        self._bus, self._sink, self._clock = bus, sink, clock
        self._lock = threading.Lock()
        self._lines = LiveLines(clock, bus.most_bytes)
        self._followed: dict[str, float] = {}
        """The sessions that are followed here, each with the time from which on it may be asked for anew."""
        self._anew = set[str]()
        self._heard: dict[str, _Heard] = {}
        self._asks, self._renew_at = False, _NEVER

    def listen(self) -> None:
        """Begin to hear what other processes want. Safe to call often."""
        self._bus.begin(self)

    def is_wanted(self, session: str) -> bool:
        """Tell whether somebody follows a session in another process."""
        return self._lines.is_wanted(session)

    def follow(self, session: str) -> None:
        """Ask the other processes for a session, because somebody follows it here."""
        with self._lock:
            self._followed[session] = 0.0
            self._anew.add(session)
            self._renew_at = min(self._renew_at, self._clock() + _RENEW_SECONDS)
        self._bus.begin(self)
        self._bus.wake()

    def unfollow(self, session: str) -> None:
        """Ask no more for a session."""
        with self._lock:
            self._followed.pop(session, None)
            self._heard.pop(session, None)
            self._anew.discard(session)

    def note(self, session: str, shown: ReplySoFar | tuple[int, ToolProgress]) -> None:
        """Send what is new of a reply, or that it has ended, or how far a call has come at which version."""
        with self._lock:
            is_first = self._lines.note(session, shown)
        if is_first:
            self._bus.wake()

    def connected(self) -> None:
        """Ask for everything anew and send it anew, because all that was sent while there was no line is lost."""
        with self._lock:
            self._asks = True
            self._lines.begin_anew()
            self._anew.update(self._followed)

    def due(self) -> tuple[Sequence[Letter], float | None]:
        """Return the letters to send now, and in how many seconds to ask again; None when not before a `wake`."""
        with self._lock:
            now = self._clock()
            letters = [Letter(None, text) for text in self._wants(now)]
            written, next_at = self._lines.letters()
            next_at = min(next_at, self._renew_at)
            return letters + written, None if next_at == _NEVER else max(0.0, next_at - now)

    def heard(self, text: str) -> None:
        """Take a message of another process. One that is not understood is left out."""
        match decoded(text):
            case Wants() as message if message.who != self.name:
                self._note_wants(message)
            case TextShown() as message:
                for show in self._taken(message):
                    show()
            case CallsShown() as message if message.session in self._followed:
                for version, call in message.calls:
                    self._sink.show(message.session, version, call)
            case _:
                pass

    def _wants(self, now: float) -> Iterator[str]:
        anew, again = self._anew, list[str]()
        if now >= self._renew_at:
            again = [session for session in self._followed if session not in anew]
            self._renew_at = now + _RENEW_SECONDS if self._followed else _NEVER
        yield from wants(self.name, again, anew, asks=self._asks, most_bytes=self._bus.most_bytes)
        self._anew, self._asks = set[str](), False

    def _note_wants(self, message: Wants) -> None:
        with self._lock:
            for sessions, anew in ((message.sessions, False), (message.anew, True)):
                for session in sessions:
                    self._lines.want(message.who, session, anew=anew, reply=self._sink.reply_of(session))
            if message.asks:
                self._renew_at = self._clock()

    def _taken(self, message: TextShown) -> list[Callable[[], None]]:
        """Note what has come of a reply, and return how to show it: only what goes on where the text before ended."""
        session, version, show = message.session, message.version, list[Callable[[], None]]()
        with self._lock:
            heard = self._heard.get(session)
            if session not in self._followed or (heard is not None and version < heard.version):
                return show
            if heard is None or (heard.version, heard.key) != (version, message.key):
                heard = _Heard(version, message.key)
            if message.at > heard.length:
                self._ask_anew(session)
                return show
            self._heard[session] = heard
            execution, step, attempt = message.key
            piece = partial(ReplyDelta, session_id=session, execution_id=execution, step=step, attempt=attempt)
            known = heard.length - message.at
            for kind, text in message.pieces:
                if known < len(text):
                    show.append(partial(self._sink.show, session, version, piece(kind=kind, text=text[known:])))
                    heard.length += len(text) - known
                known = max(0, known - len(text))
            if message.end is not None and not heard.has_ended:
                heard.has_ended = True
                whole = partial(self._sink.show, session, version, piece(is_final=True))
                show.append(whole if message.end == "whole" else partial(self._sink.drop, session, message.key))
            return show

    def _ask_anew(self, session: str) -> None:
        if (now := self._clock()) >= self._followed[session]:
            self._followed[session] = now + _ASK_AGAIN_SECONDS
            self._anew.add(session)
