"""The base of all lifecycle events: something that happened in a run, told to listeners.

A lifecycle event is derived from one event of the log, and says which. Its text names arguments of tools and never
shows them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

from steptrail.domain.camel_case import camel
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.forks import Forked
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.state import StreamState
from steptrail.projections.camel_form import camel_form

E = TypeVar("E", bound=Event)
S = TypeVar("S", bound=StreamState[Any])

_INSTANTS = {"until", "due_at", "expires_at", "started", "ended"}
_ID_SHOWN = 8
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened in a run.

    `version` is that of the stored event in its session, and `index` counts from 0 what was derived from that one
    event: together with `session_id` they name it. `position` is the stored event's place in the log; the process that
    has just written it does not know it yet. `at` is in microseconds of UTC. `session_status` is where the session
    stands after the stored event.
    """

    session_id: str
    parent_session_id: str | None
    execution_id: str
    version: int
    at: int
    session_status: ExecutionStatus
    index: int = 0
    position: int | None = field(default=None, compare=False)

    _NOUN: ClassVar = "Agent"
    _ID_KEYS: ClassVar = ("agentId", "parentAgentId")

    @property
    def timestamp(self) -> datetime:
        """When it happened, in UTC."""
        return to_datetime(self.at)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON values: its `agentId` or `flowId`, the id above, `executionId`, and what the class adds."""
        own, parent = self._ID_KEYS
        return {
            own: self.session_id,
            parent: self.parent_session_id,
            "executionId": self.execution_id,
            **self._said(),
        }

    def __str__(self) -> str:
        return f"{self._who()} {self._line()}"

    def _said(self) -> dict[str, JsonValue]:
        """Return what the class adds: each of its own fields, unless it says otherwise."""
        return {key: _told(name, getattr(self, name)) for name, key in _keys_of(type(self)).items()}

    def _line(self) -> str:
        return type(self).__name__

    def _who(self) -> str:
        parent = f" [parent={first_of(self.parent_session_id)}]" if self.parent_session_id is not None else ""
        return f"{self._NOUN} [{first_of(self.session_id)}]{parent}"


_SHARED = frozenset(each.name for each in fields(RunEvent))
_KEY = "key"


class Head(TypedDict):
    """The fields that all lifecycle events share."""

    session_id: str
    parent_session_id: str | None
    execution_id: str
    version: int
    at: int
    session_status: ExecutionStatus
    index: int
    position: int | None


@dataclass(slots=True)
class StoredMoment(Generic[S]):
    """A stored event with the state after it. `position` is its place in the log."""

    session_id: str
    state: S
    record: Recorded[Any]
    position: int | None
    heads: int = field(default=0, init=False)

    def head(self) -> Head:
        """Return the first fields of the next lifecycle event that follows from the stored one."""
        state, index = self.state, self.heads
        self.heads += 1
        return {
            "session_id": self.session_id,
            "parent_session_id": state.parent.session if state.parent is not None else None,
            "execution_id": state.execution_id or "",
            "version": self.record.version,
            "at": self.record.at,
            "session_status": state.status,
            "index": index,
            "position": self.position,
        }


def told_as(key: str | None) -> Mapping[str, str | None]:
    """Return the metadata of a field with a key of its own in the JSON; None for a field that is not part of it."""
    return {_KEY: key}


_KEYS: dict[type[RunEvent], Mapping[str, str]] = {}


def _keys_of(kind: type[RunEvent]) -> Mapping[str, str]:
    """Return the fields that a class adds and tells, each with its key: in camel case, but for a duration.

    They are looked up once, because listeners may ask every event for its JSON.
    """
    if (known := _KEYS.get(kind)) is not None:
        return known
    own = [each for each in fields(kind) if each.name not in _SHARED]
    usual = {each.name: each.name if each.name == "duration_ms" else camel(each.name) for each in own}
    keys = {each.name: each.metadata.get(_KEY, usual[each.name]) for each in own}
    _KEYS[kind] = told = {name: key for name, key in keys.items() if key is not None}
    return told


def _told(name: str, value: object) -> JsonValue:
    if name in _INSTANTS and isinstance(value, int):
        return to_datetime(value).isoformat()
    told: JsonValue = camel_form(value)
    return told


def told_of(apply: Callable[[Recorded[E]], Iterable[RunEvent]], records: Iterable[Recorded[E]]) -> tuple[RunEvent, ...]:
    """Return the lifecycle events of a whole stream, given the fold that tells those of the next stored event.

    For a fork, only the events after its beginning count: the events of its past belong to the stream before.
    """
    events = list[RunEvent]()
    for record in records:
        events += apply(record)
        if isinstance(record.event, Forked):
            events.clear()
    return tuple(events)


def first_of(session: str) -> str:
    """Return as much of an id as a line shows."""
    return session[:_ID_SHOWN]


def in_ms(seconds: float) -> int:
    """Return a duration in whole milliseconds."""
    return round(seconds * 1000)


def error_text(message: str, error_type: str | None) -> str:
    """Return an error as part of a line of text.

    The message of a validation error quotes the arguments, so only the word `validation` is returned for one.
    """
    if error_type == "validation":
        return "validation"
    line = " ".join(message.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."
