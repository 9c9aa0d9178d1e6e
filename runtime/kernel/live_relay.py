"""Exchanges live updates with the other processes of a store, as far as somebody follows.

A process says which streams its followers want to see, again and again. The process that runs one of them sends it the
replies that are being written, from their beginnings. Nothing is sent that nobody wants. Every piece says where in its
reply it begins. So a process that has missed one does not show the pieces that follow, and asks for the replies anew.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.live import Place, Progress, ReplyKey, piece_of
from steptrail.domain.newest import Newest
from steptrail.runtime.kernel.live_bus import Letter, LiveBus
from steptrail.runtime.kernel.live_lines import LiveLines
from steptrail.runtime.kernel.live_reply import ReplySoFar
from steptrail.runtime.kernel.live_wire import CallsShown, NodesShown, TextShown, Wants, decoded, wants

if TYPE_CHECKING:
    from steptrail.runtime.kernel.live_fanout import LiveFanout

_RENEW_SECONDS = 10.0
"""How often a process says what it wants."""
_ASK_AGAIN_SECONDS = 1.0
_MOST_HEARD = 1_000
"""Places of one stream of which it is known how much of their newest reply has come here."""
_NEVER = float("inf")


class _Heard(Struct):
    """How much of a reply of another process has come here."""

    version: int
    key: ReplyKey
    length: int = 0
    has_ended: bool = False


class LiveRelay:
    """Implements `LiveTraffic`. Its methods may be called from any thread.

    `sink` has the followers and the runs of its own process. It is called from any thread, and may not wait.
    """

    def __init__(self, bus: LiveBus, sink: "LiveFanout", clock: Callable[[], float]) -> None:
        self.name = os.urandom(8).hex()
        self._bus, self._sink, self._clock = bus, sink, clock
        self._lock = threading.Lock()
        self._lines = LiveLines(clock, bus.most_bytes)
        self._followed: dict[str, float] = {}
        """The streams that are followed here, each with the time from which on it may be asked for anew."""
        self._anew = set[str]()
        self._gaps = set[str]()
        """The streams of which something is missing, and which were asked for anew just before that was seen."""
        self._heard: dict[str, Newest[Place, _Heard]] = {}
        self._asks, self._renew_at = False, _NEVER

    def listen(self) -> None:
        """Begin to hear what other processes want. Safe to call often."""
        self._bus.begin(self)

    def is_wanted(self, stream: str) -> bool:
        """Tell whether somebody follows a stream in another process."""
        return self._lines.is_wanted(stream)

    def follow(self, stream: str) -> None:
        """Ask the other processes for a stream, because somebody follows it here."""
        with self._lock:
            self._followed[stream] = 0.0
            self._anew.add(stream)
            self._renew_at = min(self._renew_at, self._clock() + _RENEW_SECONDS)
        self._bus.begin(self)
        self._bus.wake()

    def unfollow(self, stream: str) -> None:
        """Ask no more for a stream."""
        with self._lock:
            self._followed.pop(stream, None)
            self._heard.pop(stream, None)
            self._anew.discard(stream)
            self._gaps.discard(stream)

    def note(self, stream: str, shown: ReplySoFar | tuple[int, Progress]) -> None:
        """Send what is new of a reply, or that it has ended, or how far something has come at which version."""
        with self._lock:
            is_first = self._lines.note(stream, shown)
        if is_first:
            self._bus.wake()

    def forget(self, stream: str, place: Place | None) -> None:
        """Send no more how far something has come, at one place or at all."""
        with self._lock:
            self._lines.forget(stream, place)

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
            next_at = min(next_at, self._renew_at, *(self._followed[stream] for stream in self._gaps))
            return letters + written, None if next_at == _NEVER else max(0.0, next_at - now)

    def heard(self, text: str) -> None:
        """Take a message of another process. One that is not understood is left out."""
        match decoded(text):
            case Wants() as message if message.who != self.name:
                self._note_wants(message)
            case TextShown() as message:
                for show in self._taken(message):
                    show()
            case (CallsShown() | NodesShown()) as message if message.stream in self._followed:
                for version, progress in message.shown:
                    self._sink.show(message.stream, version, progress)
            case _:
                pass

    def _wants(self, now: float) -> Iterator[str]:
        for stream in tuple(self._gaps):
            self._ask_anew(stream)
        anew, again = self._anew, list[str]()
        if now >= self._renew_at:
            again = [stream for stream in self._followed if stream not in anew]
            self._renew_at = now + _RENEW_SECONDS if self._followed else _NEVER
        yield from wants(self.name, again, anew, asks=self._asks, most_bytes=self._bus.most_bytes)
        self._anew, self._asks = set[str](), False

    def _note_wants(self, message: Wants) -> None:
        with self._lock:
            for streams, anew in ((message.streams, False), (message.anew, True)):
                for stream in streams:
                    self._lines.want(message.who, stream, anew=anew, replies=self._sink.replies_of(stream))
            if message.asks:
                self._renew_at = self._clock()

    def _taken(self, message: TextShown) -> list[Callable[[], None]]:
        """Note what has come of a reply, and return how to show it: only what goes on where the text before ended."""
        stream, version, key, show = message.stream, message.version, message.key, list[Callable[[], None]]()
        piece, place = partial(piece_of, key, id_of(stream)), key.place
        with self._lock:
            if stream not in self._followed:
                return show
            of_stream = self._heard.setdefault(stream, Newest(_MOST_HEARD))
            heard = of_stream.get(place)
            if heard is not None and version < heard.version:
                return show
            if heard is None or (heard.version, heard.key) != (version, key):
                heard = _Heard(version, key)
            if message.at > heard.length:
                self._ask_anew(stream)
                return show
            of_stream.keep(place, heard)
            known = heard.length - message.at
            for kind, text in message.pieces:
                if known < len(text):
                    show.append(partial(self._sink.show, stream, version, piece(kind, text[known:])))
                    heard.length += len(text) - known
                known = max(0, known - len(text))
            if message.end is not None and not heard.has_ended:
                heard.has_ended = True
                whole = partial(self._sink.show, stream, version, piece(is_final=True))
                show.append(whole if message.end == "whole" else partial(self._sink.drop, stream, place, key))
            return show

    def _ask_anew(self, stream: str) -> None:
        """Ask for the replies of a stream from their beginnings, at once or when it may be asked for again."""
        if (now := self._clock()) >= self._followed[stream]:
            self._followed[stream] = now + _ASK_AGAIN_SECONDS
            self._anew.add(stream)
            self._gaps.discard(stream)
        else:
            # Nothing more may come of what has a gap, so nobody else would ask.
            self._gaps.add(stream)
