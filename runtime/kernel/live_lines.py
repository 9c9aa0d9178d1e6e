"""Sends the live updates of the runs of one process to the other processes that want them: seldom, and in order."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from steptrail.domain.live import Place, Progress, ToolProgress
from steptrail.domain.newest import Newest
from steptrail.runtime.kernel.live_bus import Letter
from steptrail.runtime.kernel.live_reply import ReplySoFar
from steptrail.runtime.kernel.live_wire import TextShown, progress_shown, text_shown

_SECONDS_BETWEEN = 0.1
"""Between two letters about one stream to one process. What is written meanwhile is joined."""
_SECONDS_OF_CREDIT = 0.2
"""How much earlier the end of a reply may go out: the event that supersedes it is on its way already."""
_SECONDS_HELD = 35.0
"""How long it holds that a process wants a stream: it may be gone, or have lost its line."""
_MOST_PROGRESS = 64
"""Things of one stream whose progress is sent to a process that comes to want it."""


class _Sent(Struct):
    """Notes how many characters of a reply were sent to one process."""

    reply: ReplySoFar
    count: int = 0
    has_ended: bool = False

    @property
    def is_news(self) -> bool:
        return not self.has_ended and (self.reply.end is not None or any(self.reply.after(self.count)))


class _Line(Struct):
    """Notes how much of one stream was sent to one process. The reply that waited longest is the first in `sent`."""

    expires: float
    may_send_at: float = 0.0
    sent: dict[Place, _Sent] = {}
    progress: int = 0

    def begin(self, replies: Iterable[ReplySoFar]) -> None:
        """Send replies from their beginnings, unless they have ended: then there is an event that holds the whole."""
        self.sent = {each.key.place: _Sent(each, has_ended=each.end is not None) for each in replies}


class _Wanted(Struct):
    """A stream that others want to see: its replies, and how far its work has come, each with a number."""

    replies: dict[Place, ReplySoFar] = {}
    progress: Newest[tuple[Place, int], tuple[int, int, Progress]] = field(
        default_factory=lambda: Newest[tuple[Place, int], tuple[int, int, Progress]](_MOST_PROGRESS)
    )
    lines: dict[str, _Line] = {}

    def is_news_for(self, line: _Line) -> bool:
        has_come = any(number > line.progress for number, _, _ in self.progress.values())
        return has_come or any(each.is_news for each in line.sent.values())

    def drop_ended(self) -> None:
        """Drop the replies that have ended and were sent to all."""
        for place in [place for place, reply in self.replies.items() if reply.end is not None]:
            if not any(place in line.sent and line.sent[place].is_news for line in self.lines.values()):
                del self.replies[place]
                for line in self.lines.values():
                    line.sent.pop(place, None)

    def next_for(self, line: _Line) -> float:
        has_ended = any(each.is_news and each.reply.end is not None for each in line.sent.values())
        return line.may_send_at - (_SECONDS_OF_CREDIT if has_ended else 0.0)


class LiveLines:
    """Not safe for threads by itself, but for `is_wanted`."""

    def __init__(self, clock: Callable[[], float], most_bytes: int) -> None:
        self._clock, self._most_bytes = clock, most_bytes
        self._wanted: dict[str, _Wanted] = {}
        self._noted = set[str]()
        self._shown, self._look_at = 0, 0.0

    def is_wanted(self, stream: str) -> bool:
        """Tell whether another process wants to see a stream."""
        wanted = self._wanted.get(stream)
        return wanted is not None and any(line.expires > self._clock() for line in tuple(wanted.lines.values()))

    def want(self, who: str, stream: str, *, anew: bool, replies: Sequence[ReplySoFar]) -> None:
        """Note that process `who` wants a stream, whose present `replies` are begun with when the process is new to it.

        With `anew` they are begun with again.
        """
        wanted = self._wanted.setdefault(stream, _Wanted())
        line = wanted.lines.get(who)
        if line is None or anew:
            line = wanted.lines[who] = _Line(0.0, may_send_at=line.may_send_at if line is not None else 0.0)
            wanted.replies.update((each.key.place, each) for each in replies)
            line.begin(wanted.replies.values())
            self._noted.add(stream)
        line.expires = self._clock() + _SECONDS_HELD

    def begin_anew(self) -> None:
        """Send what is being written from its beginning, because some of it may not have arrived."""
        for stream, wanted in self._wanted.items():
            for line in wanted.lines.values():
                line.begin(wanted.replies.values())
            self._noted.add(stream)

    def note(self, stream: str, shown: ReplySoFar | tuple[int, Progress]) -> bool:
        """Note what is to be sent, and tell whether that is the first news of the stream since `letters`."""
        wanted = self._wanted.get(stream)
        if wanted is None:
            return False
        if isinstance(shown, ReplySoFar):
            place = shown.key.place
            wanted.replies[place] = shown
            for line in wanted.lines.values():
                if place not in line.sent or line.sent[place].reply is not shown:
                    line.sent.pop(place, None)
                    line.sent[place] = _Sent(shown)
        else:
            self._note_progress(wanted, *shown)
        is_first = stream not in self._noted
        self._noted.add(stream)
        return is_first

    def forget(self, stream: str, place: Place | None) -> None:
        """Send the progress of one place, or of all, no more."""
        wanted = self._wanted.get(stream)
        if wanted is not None:
            for key in [key for key in wanted.progress if place is None or key[0] == place]:
                del wanted.progress[key]

    def letters(self) -> tuple[list[Letter], float]:
        """Return what may be sent now, and when there will be more: a time of the clock."""
        self._forget_the_gone()
        now, letters, next_at = self._clock(), list[Letter](), float("inf")
        noted, self._noted = self._noted, set[str]()
        for stream in noted & self._wanted.keys():
            wanted = self._wanted[stream]
            for who, line in wanted.lines.items():
                if wanted.is_news_for(line) and wanted.next_for(line) <= now:
                    if (text := self._next(stream, wanted, line)) is not None:
                        letters.append(Letter(who, text))
                    line.may_send_at = max(now, line.may_send_at) + _SECONDS_BETWEEN
                if wanted.is_news_for(line):
                    self._noted.add(stream)
                    next_at = min(next_at, wanted.next_for(line))
            wanted.drop_ended()
        return letters, next_at

    def _note_progress(self, wanted: _Wanted, version: int, progress: Progress) -> None:
        key = progress.place, 0
        if isinstance(progress, ToolProgress):
            key = progress.place, progress.position
            known = [each for _, _, each in wanted.progress.values()]
            if any(isinstance(each, ToolProgress) and each.step != progress.step for each in known):
                wanted.progress.clear()
        self._shown += 1
        wanted.progress.keep(key, (self._shown, version, progress))

    def _forget_the_gone(self) -> None:
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + _SECONDS_HELD / 10
        for stream, wanted in list(self._wanted.items()):
            for who in [who for who, line in wanted.lines.items() if line.expires <= now]:
                del wanted.lines[who]
            if not wanted.lines:
                del self._wanted[stream]

    def _next(self, stream: str, wanted: _Wanted, line: _Line) -> str | None:
        fresh = sorted((each for each in wanted.progress.values() if each[0] > line.progress), key=lambda each: each[0])
        if fresh:
            line.progress = fresh[-1][0]
            shown = progress_shown(stream, [each[1:] for each in fresh], most_bytes=self._most_bytes)
            if shown is not None:
                return shown
        for place, sent in line.sent.items():
            if sent.is_news:
                # It goes to the end, so that all replies have their turns.
                line.sent[place] = line.sent.pop(place)
                return self._more_of(stream, wanted, place, sent)
        return None

    def _more_of(self, stream: str, wanted: _Wanted, place: Place, sent: _Sent) -> str | None:
        reply = sent.reply
        end = reply.end  # before the pieces: of a reply that has ended all of them are there
        message = TextShown(stream, reply.version, reply.key, sent.count)
        text, count = text_shown(message, reply.after(sent.count), end=end, most_bytes=self._most_bytes)
        sent.count += count
        sent.has_ended = end is not None and not any(reply.after(sent.count))
        return text if count or sent.has_ended else None
