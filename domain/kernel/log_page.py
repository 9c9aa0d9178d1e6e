"""The log: the events of all streams, in the order in which they were stored."""

from collections.abc import Sequence
from typing import NamedTuple

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.by_prefix import id_of, prefix_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded


class LogEntry(NamedTuple):
    """One event with its place in the log, which holds the events of all streams in the order they were stored.

    `position` counts from 1 in the whole store. It only grows, and numbers may be missing; begin the next subscription
    after it. `stream` is the id of the stream with its prefix, such as `agent:triage-7`. `record` is the event with its
    version in the stream, its instant and the head of its commit.
    """

    position: int
    stream: str
    record: Recorded[Event]

    @property
    def id(self) -> str:
        """The id of the stream without its prefix: the session's, for a session of an agent."""
        return id_of(self.stream)

    @property
    def kind(self) -> str:
        """The kind of the stream: `agent` for a session of an agent."""
        return prefix_of(self.stream).removesuffix(":")


class LogPage(NamedTuple):
    """A piece of the log: what can be read of it, and why the rest cannot, each in order.

    `reached` is the position of the newest record in it, and in an empty page the one after which was read. `is_end`
    says that no more stood behind it.
    """

    entries: Sequence[LogEntry]
    damage: Sequence[CorruptRecord]
    reached: int
    is_end: bool

    @property
    def size(self) -> int:
        """How many records it has, those that cannot be read included."""
        return len(self.entries) + len(self.damage)

    def in_turn(self) -> Sequence[LogEntry | CorruptRecord]:
        """Return the entries, with the error of each record that cannot be read in its place."""
        if not self.damage:
            return self.entries
        return sorted([*self.entries, *self.damage], key=lambda item: item.position or 0)

    def upto(self, position: int) -> "LogPage":
        """Return the part up to a position, as if the log ended there."""
        if self.reached <= position:
            return self
        entries = [entry for entry in self.entries if entry.position <= position]
        damage = [error for error in self.damage if (error.position or 0) <= position]
        return LogPage(entries, damage, position, is_end=True)
