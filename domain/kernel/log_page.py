"""The log: the events of all streams, in the order in which they were stored."""

from collections.abc import Iterable
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
    """A piece of the log.

    `items` are its entries in order, with the error of each record that cannot be read in its place; they are gone
    through once. `size` says how many there are. `reached` is the newest position; an empty page reaches as far as was
    looked, at least to the position after which was read. `is_end` says that no more stood behind it.
    """

    items: Iterable[LogEntry | CorruptRecord]
    size: int
    reached: int
    is_end: bool
