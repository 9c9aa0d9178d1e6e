"""Events of the session itself: it began, it was told something, its metadata changed."""

from typing import Literal

from pydantic import Field, JsonValue

from steptrail.domain.base import FrozenModel
from steptrail.domain.event import Event
from steptrail.domain.messages import Message

__all__ = ["MessagesAppended", "MetadataChanged", "ParentRef", "SessionStarted"]


class ParentRef(FrozenModel):
    """The tool call of another session that this one was started for."""

    session: str
    execution: str
    effect: str


class SessionStarted(Event):
    """A session was opened."""

    TYPE = "session.started.v1"
    name: str
    parent: ParentRef | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class MessagesAppended(Event):
    """Somebody added to the conversation. During a step the messages wait for its end.

    `by` names the caller, the operator or the hook. `key` is the command's idempotency key.
    """

    TYPE = "messages.appended.v1"
    messages: tuple[Message, ...]
    source: Literal["input", "hook"] = "input"
    by: str = "user"
    key: str | None = None


class MetadataChanged(Event):
    """Entries of the session's metadata were set or removed."""

    TYPE = "metadata.changed.v1"
    changes: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    removed: tuple[str, ...] = ()
    by: str = "user"
