"""The effects that the machine of a workflow asks the runtime for. Each is performed once and answered with events."""

from msgspec import Struct

from steptrail.domain.flow.events import CutReason, FlowEvent
from steptrail.domain.flow.task import TaskKey
from steptrail.domain.shared.events import WaitKind


class RecordEvents(Struct, frozen=True):
    """Record these events, which follow from the state alone."""

    events: tuple[FlowEvent, ...]


class Evaluate(Struct, frozen=True):
    """Compute the result of a node that does not leave the process, and record it or the failure."""

    key: TaskKey


class Ask(Struct, frozen=True):
    """Make the question of a human node, or the one whether a tool may run, and record it or that it cannot be made."""

    key: TaskKey


class StartTasks(Struct, frozen=True):
    """Record that these nodes are about to run, or that they cannot. They begin in the next `Await`."""

    keys: tuple[TaskKey, ...]


class ScheduleNodeRetry(Struct, frozen=True):
    """Choose the delay before the next try and record it."""

    key: TaskKey


class Await(Struct, frozen=True):
    """Run these nodes until one of them ends, something is stored by others, or it is `until` (microseconds of UTC).

    What leads to them must be durable first.
    """

    keys: tuple[TaskKey, ...]
    until: int | None = None


class CutOff(Struct, frozen=True):
    """Cut off the nodes `now`, and let the `others` run until `until` (microseconds of UTC). Record all that ends."""

    now: tuple[TaskKey, ...]
    others: tuple[TaskKey, ...]
    reason: CutReason
    until: int


class RestUntil(Struct, frozen=True):
    """Wait until `until` (microseconds of UTC). None means that only a command or another stream ends the wait."""

    kind: WaitKind
    until: int | None


FlowEffect = RecordEvents | Ask | Evaluate | StartTasks | ScheduleNodeRetry | Await | CutOff | RestUntil
