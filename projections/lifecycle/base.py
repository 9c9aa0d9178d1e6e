"""The base of all lifecycle events: something that happened in a run, told to listeners.

A lifecycle event is derived from one event of the log, and says which. Its text names arguments of tools and never
shows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import ClassVar

from steptrail.domain.camel_case import camel
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.camel_form import camel_form

__all__ = ["RunEvent", "error_text", "first_of", "in_ms", "told_as"]

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
        own = [each for each in fields(self) if each.name not in _SHARED]
        keys = {each.name: key for each in own if (key := each.metadata.get(_KEY, _usual_key(each.name))) is not None}
        return {key: _told(name, getattr(self, name)) for name, key in keys.items()}

    def _line(self) -> str:
        return type(self).__name__

    def _who(self) -> str:
        parent = f" [parent={first_of(self.parent_session_id)}]" if self.parent_session_id is not None else ""
        return f"{self._NOUN} [{first_of(self.session_id)}]{parent}"


_SHARED = frozenset(each.name for each in fields(RunEvent))
_KEY = "key"


def told_as(key: str | None) -> Mapping[str, str | None]:
    """Return the metadata of a field with a key of its own in the JSON; None for a field that is not part of it."""
    return {_KEY: key}


def _usual_key(name: str) -> str:
    """Return the name in camel case, but that of a duration as it is: so front ends know it."""
    return name if name == "duration_ms" else camel(name)


def _told(name: str, value: object) -> JsonValue:
    if name in _INSTANTS and isinstance(value, int):
        return to_datetime(value).isoformat()
    told: JsonValue = camel_form(value)
    return told


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
