"""The table of the kinds of machines whose streams a store may hold, by the prefix of their streams.

The kernel imports no kind. Subscriptions, followers, lists, `doctor` and children look up the kind of a stream here, by
the stream's id.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from steptrail.domain.errors import CommandRejected, ConfigurationError, SessionNotFound
from steptrail.domain.kernel.by_prefix import ByPrefix, id_of
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.kernel.given import a_row
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.live import Place, Writing

if TYPE_CHECKING:
    from steptrail.runtime.kernel.control import StreamControl
    from steptrail.runtime.kernel.environment import Environment
    from steptrail.runtime.kernel.ports import EventStore

_Control: TypeAlias = "StreamControl[Any, Any, Any, Any]"


class Kind(NamedTuple):
    """One kind of machine, as the runtime needs it.

    `control` returns the control of one of its streams, without the code that the stream was started with. `in_flight`
    returns one line of text for each effect that a state has started and not ended; `doctor` prints them. `writing`
    returns what tells whether an update is of a reply that a model is writing. `settles` returns the place at which an
    event supersedes the live updates that were shown before it; None for an event that supersedes none.
    """

    machine: Machine[Any, Any, Any, Any]
    control: Callable[["Environment", str], _Control]
    in_flight: Callable[[Any], Sequence[str]]
    writing: Callable[[Any], Writing]
    settles: Callable[[Event], Place | None]


KINDS: ByPrefix[Kind] = ByPrefix(
    {"agent:": "steptrail.runtime.agent.kind:KIND", "flow:": "steptrail.runtime.flow.kind:KIND"}
)
"""Prefix of a stream -> its kind. Looking up a kind imports its events, so that its records can be read."""


def types_of_events(given: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names of types of events. Raises `ConfigurationError` for a name that no event has."""
    types = a_row(given, what)
    if _unknown(types):
        KINDS.load_all()  # the events of a kind are known once it is imported
    if unknown := _unknown(types):
        raise ConfigurationError(f"{what}: {', '.join(unknown)}: no event has this type, and nothing would ever come")
    return types


def _unknown(types: Iterable[object]) -> Sequence[str]:
    return sorted(repr(name) for name in types if not isinstance(name, str) or name not in EVENT_TYPES)


async def not_found(store: "EventStore", stream: str) -> SessionNotFound:
    """Return the error for a stream that is not there. It names the kind that has a stream of this id."""
    for prefix in KINDS:
        other = prefix + id_of(stream)
        if other != stream and await store.version(other):
            return SessionNotFound(stream, other)
    return SessionNotFound(stream)


def control_of(environment: "Environment", stream: str) -> _Control:
    """Return the control of a stream of any kind. Raises `CommandRejected` for an unknown kind."""
    kind = KINDS.of(stream)
    if kind is None:
        raise CommandRejected("ask", stream, "no kind of machine that is known here has such streams")
    return kind.control(environment, stream)
