"""The place below an effect where it may begin a stream of its own, of any kind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Stop
from steptrail.domain.shared.parent import ParentRef, session_for_call
from steptrail.runtime.kernel.clock import ClockBelow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.segment import Segment

_HANDED_DOWN = ("tenant",)


class ChildPlace(NamedTuple):
    """The surroundings of a stream that an effect of another stream begins. `parent` names that effect and its stream.

    `above` is the journal of that stream. `takes_over` says that the run above was taken from a live owner: then the
    streams below it may be taken too. With a `retry_key`, the run above was retried: a stream that ended without an
    answer is retried too, once for each key. None when it is not to be. `metadata` is what a stream begins with: the
    tenant of the run above, if it has one, so that lists and sums of that tenant have the runs below it too. `lent` is
    what the stream may use of the budgets above it; None for no limit.
    """

    environment: Environment
    parent: ParentRef
    above: Journal[Any, Any]
    takes_over: bool = False
    retry_key: str | None = None
    metadata: Mapping[str, JsonValue] = MappingProxyType({})
    lent: Any = None

    @classmethod
    def below(cls, segment: Segment[Any, Any], parent: ParentRef) -> "ChildPlace":
        """Return the place below a run."""
        journal = segment.journal
        metadata, clock = journal.committed.metadata, ClockBelow(segment.environment.clock, journal.now)
        handed_down = {name: metadata[name] for name in _HANDED_DOWN if name in metadata}
        return cls(replace(segment.environment, clock=clock), parent, journal, segment.took_over, metadata=handed_down)

    @property
    def id(self) -> str:
        """The id of the stream, which is the same whenever the effect runs again."""
        return session_for_call(self.parent.effect)

    async def stop_above(self) -> Stop | None:
        """Return the open request to stop the stream above; None when there is none."""
        kind = KINDS.of(self.parent.stream)
        if kind is None:
            return None
        asked = kind.machine.control.asked(await self.above.newest())
        return asked if isinstance(asked, Stop) else None
