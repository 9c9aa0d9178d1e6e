"""The port between the tries of nodes and what they do: what a try is given, and how it may end."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.kinds.port import NodeFault, without_code
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message
from steptrail.domain.storable import storable, type_name
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.flow.functions import NodeContext
from steptrail.runtime.kernel.asked_model import ShowPiece
from steptrail.runtime.kernel.child_place import ChildPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The things that a try of a node is given.

    `timeout` is in seconds, `now` returns the present instant in microseconds of UTC, and `tried` is how many tries of
    the node have ended. `read` returns the bytes of a file by its digest. `child` is the place for a stream that it
    begins. `writer` returns what shows a reply while it is written; None when nobody watches.
    """

    context: NodeContext
    seen: Seen
    timeout: float | None
    now: Callable[[], int]
    read: Callable[[str], Awaitable[bytes]]
    tried: int = 0
    child: ChildPlace | None = None
    writer: Callable[[], ShowPiece | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The try returned, and came with these files. Raises `NotStorable` for what could not be read back."""

    output: JsonValue = None
    sets: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    unsets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    files: tuple[FilePart, ...] = ()
    usage: BilledUsage | None = None
    route: Route | None = None
    detail: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def __post_init__(self) -> None:
        for name in ("output", "sets", "detail"):
            object.__setattr__(self, name, storable(getattr(self, name), name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The try failed, or was refused before it began. `raised` is kept for `logging`.

    `may_have_acted` says that nobody knows whether it took effect: it fails so only if to do it twice does no harm.
    `may_retry` is False where the rule of the tool itself does not cover such a failure.
    """

    failure: FailureClass
    error: ErrorInfo
    details: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    usage: BilledUsage | None = None
    raised: BaseException | None = None
    may_have_acted: bool = False
    may_retry: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The time of the try was up. `may_retry` is that of a failure."""

    error: ErrorInfo
    usage: BilledUsage | None = None
    may_retry: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The stream that the node runs waits or is paused, for `reason`, until `until` (microseconds of UTC) or longer."""

    stream: str
    reason: str
    until: int | None = None
    usage: BilledUsage | None = None


Outcome = Succeeded | Failed | TimedOut | Suspended


class NodeCall(Protocol):
    """The work of one node in a try, prepared from what the node sees. It raises `NodeFault` where it cannot be made.

    `given` is what it gives to the world, for its digest. `usual` is the class of a failure of which nothing more is
    known. `timeout` is its own time in seconds, which it keeps itself; None for that of the node alone. With a
    `patience` (seconds) a try whose time is up, or that was cut off, is left behind after that; None waits for its end.
    """

    effect: ToolEffect
    given: JsonValue
    usual: FailureClass
    timeout: float | None
    patience: float | None

    async def run(self, attempt: Try) -> Outcome:
        """Make the try, and return how it ended. What is raised counts as a failure."""
        ...


def not_brought(what: str, code: object) -> NodeFault:
    """Return the fault of a node that has this `code` in place of what is recorded."""
    return without_code(what, "nothing" if code is None else type_name(code))
