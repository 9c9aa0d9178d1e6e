"""Sends the live updates of the runs of one process to the other processes that want them: seldom, and in order."""

from collections.abc import Callable
from dataclasses import dataclass, field

from steptrail.domain.live import ToolProgress
from steptrail.runtime.kernel.live_bus import Letter
from steptrail.runtime.kernel.live_reply import ReplySoFar
from steptrail.runtime.kernel.live_wire import TextShown, calls_shown, text_shown

__all__ = ["LiveLines"]

_SECONDS_BETWEEN = 0.1
"""Between two letters about one session to one process. What is written meanwhile is joined."""
_SECONDS_OF_CREDIT = 0.2
"""How much earlier the end of a reply may go out: the event that supersedes it is on its way already."""
_SECONDS_HELD = 35.0
"""How long it holds that a process wants a session: it may be gone, or have lost its line."""


@dataclass(slots=True)
class _Line:
    """Notes how much of one session was sent to one process."""

    expires: float
    may_send_at: float = 0.0
    reply: ReplySoFar | None = None
    sent: int = 0
    has_ended: bool = False
    call: int = 0

    def begin(self, reply: ReplySoFar | None) -> None:
        """Send a reply from its beginning, unless it has ended: then there is an event that holds the whole."""
        self.reply, self.sent, self.has_ended = reply, 0, reply is not None and reply.end is not None


@dataclass(slots=True)
class _Wanted:
    """A session that others want to see: its reply, and how far its calls have come, each with a number."""

    reply: ReplySoFar | None = None
    calls: dict[int, tuple[int, int, ToolProgress]] = field(default_factory=dict[int, tuple[int, int, ToolProgress]])
    lines: dict[str, _Line] = field(default_factory=dict[str, _Line])

    def is_news_for(self, line: _Line) -> bool:
        if any(number > line.call for number, _, _ in self.calls.values()):
            return True
        if self.reply is None or line.reply is not self.reply:
            return self.reply is not None
        return not line.has_ended and (self.reply.end is not None or any(self.reply.after(line.sent)))

    def next_for(self, line: _Line) -> float:
        has_ended = self.reply is not None and self.reply.end is not None
        return line.may_send_at - (_SECONDS_OF_CREDIT if has_ended else 0.0)


class LiveLines:
    """Not safe for threads by itself, but for `is_wanted`."""

    def __init__(self, clock: Callable[[], float], most_bytes: int) -> None:
        self._clock, self._most_bytes = clock, most_bytes
        self._wanted: dict[str, _Wanted] = {}
        self._noted = set[str]()
        self._calls, self._look_at = 0, 0.0

    def is_wanted(self, session: str) -> bool:
        """Tell whether another process wants to see a session."""
        wanted = self._wanted.get(session)
        return wanted is not None and any(line.expires > self._clock() for line in tuple(wanted.lines.values()))

    def want(self, who: str, session: str, *, anew: bool, reply: ReplySoFar | None) -> None:
        """Note that process `who` wants a session, whose present `reply` is begun with when the process is new to it.

        With `anew` it is begun with again.
        """
        wanted = self._wanted.setdefault(session, _Wanted())
        line = wanted.lines.get(who)
        if line is None or anew:
            line = wanted.lines[who] = _Line(0.0, may_send_at=line.may_send_at if line is not None else 0.0)
            wanted.reply = reply or wanted.reply
            line.begin(wanted.reply)
            self._noted.add(session)
        line.expires = self._clock() + _SECONDS_HELD

    def begin_anew(self) -> None:
        """Send what is being written from its beginning, because some of it may not have arrived."""
        for session, wanted in self._wanted.items():
            for line in wanted.lines.values():
                line.begin(wanted.reply)
            self._noted.add(session)

    def note(self, session: str, shown: ReplySoFar | tuple[int, ToolProgress]) -> bool:
        """Note what is to be sent, and tell whether that is the first news of the session since `letters`."""
        wanted = self._wanted.get(session)
        if wanted is None:
            return False
        if isinstance(shown, ReplySoFar):
            wanted.reply = shown
        else:
            version, progress = shown
            if any(known.step != progress.step for _, _, known in wanted.calls.values()):
                wanted.calls.clear()
            self._calls += 1
            wanted.calls[progress.position] = (self._calls, version, progress)
        is_first = session not in self._noted
        self._noted.add(session)
        return is_first

    def letters(self) -> tuple[list[Letter], float]:
        """Return what may be sent now, and when there will be more: a time of the clock."""
        self._forget_the_gone()
        now, letters, next_at = self._clock(), list[Letter](), float("inf")
        noted, self._noted = self._noted, set[str]()
        for session in noted & self._wanted.keys():
            wanted = self._wanted[session]
            for who, line in wanted.lines.items():
                if wanted.is_news_for(line) and wanted.next_for(line) <= now:
                    if (text := self._next(session, wanted, line)) is not None:
                        letters.append(Letter(who, text))
                    line.may_send_at = max(now, line.may_send_at) + _SECONDS_BETWEEN
                if wanted.is_news_for(line):
                    self._noted.add(session)
                    next_at = min(next_at, wanted.next_for(line))
        return letters, next_at

    def _forget_the_gone(self) -> None:
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + _SECONDS_HELD / 10
        for session, wanted in list(self._wanted.items()):
            for who in [who for who, line in wanted.lines.items() if line.expires <= now]:
                del wanted.lines[who]
            if not wanted.lines:
                del self._wanted[session]

    def _next(self, session: str, wanted: _Wanted, line: _Line) -> str | None:
        fresh = sorted(call for call in wanted.calls.values() if call[0] > line.call)
        if fresh:
            line.call = fresh[-1][0]
            shown = calls_shown(session, [call[1:] for call in fresh], most_bytes=self._most_bytes)
            if shown is not None:
                return shown
        reply = wanted.reply
        if reply is None:
            return None
        if line.reply is not reply:
            line.reply, line.sent, line.has_ended = reply, 0, False
        if line.has_ended:
            return None
        end = reply.end  # before the pieces: of a reply that has ended all of them are there
        message = TextShown(session, reply.version, reply.key, line.sent)
        text, count = text_shown(message, reply.after(line.sent), end=end, most_bytes=self._most_bytes)
        line.sent += count
        line.has_ended = end is not None and not any(reply.after(line.sent))
        return text if count or line.has_ended else None
