"""The parts that the forks of all machines share. A fork goes on from the past of another stream, which it shares."""

from collections.abc import Callable

from steptrail.domain.base import Count, Positive, Value
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import FromOutside
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import StreamVersion
from steptrail.domain.shared.run import ExecutionStatus


class ForkRef(Value, frozen=True):
    """The origin of a fork: a stream, without its prefix, and how many of its events are the past of the fork."""

    session: str
    version: int


class Fork(FromOutside, frozen=True, kw_only=True):
    """Open another stream that goes on from the past of this one, up to the folded state.

    The events that follow begin the new stream. `digest` is that of the commit with the newest event of this past.
    """

    by: str
    digest: str = ""
    name: str | None = None
    reason: str | None = None
    metadata: dict[str, JsonValue] = {}


class Forked(Event, frozen=True, kw_only=True):
    """A stream was opened as a fork. Its past is the first `version` events of `source`, which are not copied.

    `digest` is that of the commit with the last of those events, in hexadecimal. `status`, `executions` and `steps` (of
    the last execution) describe that past, for lists that read no other stream; so does `metadata`, with what the past
    has.
    """

    STATE = frozenset({"by", "digest", "metadata", "name", "reason", "source"})
    name: str
    source: str
    version: Positive
    digest: str
    by: str
    reason: str | None = None
    status: ExecutionStatus
    executions: Count
    steps: Count
    metadata: dict[str, JsonValue] = {}


def forked_from(prefix: str) -> Callable[[Event], StreamVersion | None]:
    """Return the function that tells where a fork leaves its source, for the streams with a prefix."""

    def place(event: Event) -> StreamVersion | None:
        return StreamVersion(prefix + event.source, event.version, event.digest) if isinstance(event, Forked) else None

    return place
